"""raster.stats_zonal: statistics of the pixels inside each of many zones, weighted by the share that is inside."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from exactextract import exact_extract
from pydantic import Field, model_validator
from rasterio.crs import CRS
from rasterio.io import DatasetReader
from shapely.geometry import mapping

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.areas import WGS84, Area, area_of, in_raster
from rmhdag.handlers.raster.band_source import BandSource
from rmhdag.handlers.raster.cog_files import require_crs
from rmhdag.handlers.raster.crs import CrsText, read_crs
from rmhdag.handlers.raster.geometry import GeometryRefused, check_geometry
from rmhdag.handlers.raster.opening import open_raster, reading
from rmhdag.handlers.raster.outputs import item_id_of, keep_file
from rmhdag.handlers.raster.writing import ProgressCallback, unwatched, watch
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import NamedBlob, SourceParams
from rmhdag.models.blobs import BlobRef, Container
from rmhdag.models.id_types import StacId
from rmhdag.storage import BlobNotFound

STATISTICS = "statistics"
# Largest number of rows in a result; more go into a file.
INLINE_BYTES = 256 * 1024
ZONES_BYTES = 64 * 2**20
CELLS_IN_MEMORY = 4_000_000
NUMBER = "number"

Statistic = Literal["count", "sum", "mean", "min", "max", "stdev", "variance", "median", "mode", "minority", "variety"]


class ZonalStatisticsParams(SourceParams):
    """Zones as GeoJSON, in the parameters or in a file."""

    zones: Annotated[
        dict[str, Any] | None, Field(description="GeoJSON: a FeatureCollection, a Feature or a geometry")
    ] = None
    zones_source: Annotated[BlobRef | NamedBlob | None, Field(description="The same as a file")] = None
    crs: Annotated[CrsText, Field(description="Of the zones")] = WGS84
    id_property: Annotated[
        str | None, Field(max_length=200, description="Which property names a zone; else its id, else its number")
    ] = None
    bands: Annotated[list[Annotated[int, Field(ge=1)]] | None, Field(min_length=1)] = None
    statistics: Annotated[tuple[Statistic, ...], Field(min_length=1)] = ("count", "sum", "mean", "min", "max")
    item_id: StacId | None = None
    container: Container = STATISTICS

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.zones is None) == (self.zones_source is None):
            raise ValueError("give the zones once: `zones` as GeoJSON, or `zones_source` as a file")
        return self


class Zone(NamedTuple):
    name: str | int
    area: Area


@handler("raster.stats_zonal", aliases=["raster_stats_zonal", "stats_zonal"])
def stats_zonal(ctx: HandlerContext[ZonalStatisticsParams]) -> dict[str, Any]:
    """Statistics of a raster's pixels inside each of many zones; long results become a JSON file in silver."""
    params = ctx.params
    zones = list(read_zones(given_zones(ctx), params.id_property, read_crs(params.crs)))
    with open_raster(ctx, params.address) as dataset, reading(dataset.name, params.place):
        rows = zonal_statistics(
            dataset, zones, read_crs(params.crs), params.statistics, bands=params.bands, tell=watch(ctx)
        )
    output: dict[str, Any] = {"zone_count": len(zones), "row_count": len(rows), "statistics": rows, "file": None}
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    if len(text) > INLINE_BYTES:
        local = ctx.scratch / "statistics.json"
        local.write_text(text, encoding="utf-8")
        item_id = params.item_id or item_id_of(params.place)
        blob = keep_file(ctx.storage, local, params.container, item_id, media_type="application/json")
        output |= {"statistics": None, "file": blob.model_dump(mode="json")}
    return output


def given_zones(ctx: HandlerContext[ZonalStatisticsParams]) -> Any:
    if ctx.params.zones_source is None:
        return ctx.params.zones
    address = ctx.params.zones_source.address
    try:
        return json.loads(ctx.storage.read(address, max_bytes=ZONES_BYTES))
    except BlobNotFound as error:
        raise NonRetryableError(
            f"there is no file {address}: check its name, its container and its zone", code="FILE_NOT_FOUND"
        ) from error
    except ValueError as error:
        raise NonRetryableError(f"{address} is not GeoJSON: {error}", code="INVALID_FORMAT") from error


def read_zones(geojson: Any, id_property: str | None, crs: CRS) -> Iterator[Zone]:
    kind = geojson.get("type") if isinstance(geojson, dict) else None
    features = geojson.get("features") if kind == "FeatureCollection" else [geojson]
    if not isinstance(features, list) or not features:
        raise NonRetryableError(
            "there are no zones: give a GeoJSON FeatureCollection with features", code="INVALID_PARAMETER"
        )
    for number, feature in enumerate(features):
        name = zone_name(feature, id_property, number)
        try:
            yield Zone(name, area_of(check_geometry(feature, is_geographic=crs.is_geographic)))
        except GeometryRefused as error:
            raise GeometryRefused(f"zone {name!r}: {error}") from error


def zone_name(feature: Any, id_property: str | None, number: int) -> str | int:
    members = feature if isinstance(feature, dict) else {}
    if id_property is not None:
        name = (members.get("properties") or {}).get(id_property)
        if name is None:
            raise NonRetryableError(
                f"zone {number} has no property {id_property!r}: all zones need one, as their name",
                code="INVALID_PARAMETER",
            )
    else:
        name = members.get("id", number)
    return name if isinstance(name, str | int) else str(name)


def zonal_statistics(
    dataset: DatasetReader,
    zones: list[Zone],
    crs: CRS,
    statistics: Sequence[Statistic],
    *,
    bands: list[int] | None = None,
    tell: ProgressCallback = unwatched,
) -> list[dict[str, Any]]:
    """A row per zone and band, in their order. The raster is read once per band, piece by piece."""
    require_crs(dataset)
    numbers = bands or list(dataset.indexes)
    if max(numbers) > dataset.count:
        raise NonRetryableError(
            f"there is no band {max(numbers)}: the raster has {dataset.count}", code="INVALID_PARAMETER"
        )
    if dataset.transform.b or dataset.transform.d:
        raise NonRetryableError(
            "the raster is rotated: bring it upright with raster.reproject first", code="VALIDATION_ERROR"
        )
    features = [
        {"type": "Feature", "properties": {NUMBER: number}, "geometry": mapping(area)}
        for number, zone in enumerate(zones)
        if not (area := in_raster(zone.area, crs, dataset)).is_empty
    ]
    by_band = {}
    for turn, band in enumerate(numbers):

        def report_share(share: float, message: str, turn: int = turn) -> None:
            tell((turn + min(max(share, 0.0), 1.0)) / len(numbers), "adding up")

        report_share(0.0, "")
        extracts = extracted(dataset, band, features, statistics, report_share) if features else []
        by_band[band] = {feature["properties"][NUMBER]: feature["properties"] for feature in extracts}
    return [
        {"zone": zone.name, "band": band, **row_of(by_band[band].get(number), statistics)}
        for number, zone in enumerate(zones)
        for band in numbers
    ]


def extracted(
    dataset: DatasetReader, band: int, features: list[dict[str, Any]], statistics: Sequence[Statistic], progress: Any
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = exact_extract(
        BandSource(dataset, band),
        features,
        list(dict.fromkeys(statistics)),
        include_cols=[NUMBER],
        strategy="raster-sequential",
        max_cells_in_memory=CELLS_IN_MEMORY,
        progress=progress,
    )
    return rows


def row_of(values: dict[str, Any] | None, statistics: Sequence[Statistic]) -> dict[str, float | int | None]:
    """JSON has no NaN: a statistic of nothing is null, and nothing counts as 0."""
    if values is None:
        return {name: 0 if name in ("count", "variety") else None for name in statistics}
    return {name: plain(values[name]) for name in statistics}


def plain(value: Any) -> float | int | None:
    if value is None:
        return None
    number = value.item() if hasattr(value, "item") else value
    return number if isinstance(number, int) or math.isfinite(number) else None

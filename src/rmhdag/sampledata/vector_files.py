"""Writes a layer in one of the formats in which vector data comes, atomically."""

from __future__ import annotations

import csv
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import shapely
from rasterio.crs import CRS
from rasterio.warp import transform

from rmhdag.sampledata.vector_kinds import DEGREES, LEAST_FEATURES, MOST_FEATURES, PACIFIC, Format, Layer, VectorSample
from rmhdag.sampledata.vector_scenes import Batch, Shapes, batches_of, crs_of, schema_of

Progress = Callable[[float], None]
Writer = Callable[[Path, VectorSample, Iterator[Batch]], None]
GEOMETRY = "geometry"
# 1 cm on the ground.
DEGREE_DIGITS, METRE_DIGITS = 7, 2
# Never the clock: the same seed gives the same bytes.
MOMENT = "2024-06-15T10:30:00.000Z"
ZIP_MOMENT = (2024, 6, 15, 10, 30, 0)
TYPES = {
    Layer.DISTRICTS: "MultiPolygon",
    Layer.ROADS: "MultiLineString",
    Layer.BUILDINGS: "Polygon",
    Layer.PLACES: "Point",
    Layer.ANTIMERIDIAN: "Polygon",
}
PLURAL: dict[str, Callable[..., Any]] = {
    "MultiPolygon": shapely.multipolygons,
    "MultiLineString": shapely.multilinestrings,
}


def write_vector_sample(
    path: Path, sample: VectorSample, features: int, seed: int, progress: Progress = lambda share: None
) -> None:
    """`features` in the largest layer."""
    if not LEAST_FEATURES <= features <= MOST_FEATURES:
        raise ValueError(f"{features} features: a vector sample has {LEAST_FEATURES} to {MOST_FEATURES}")
    # Drivers look at the ending of the name, so the draft is in a folder of its own.
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    draft.mkdir()
    try:
        batches: Iterator[Batch] = (
            (columns, moved(shapes, crs_of(sample.layer), sample.crs))
            for columns, shapes in batches_of(sample.layer, features, seed)
        )
        if sample.crs == PACIFIC:
            batches = map(without_wide, batches)
        WRITERS[sample.format](draft / path.name, sample, counted(batches, features, progress))
        (draft / path.name).replace(path)
        progress(1)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def counted(batches: Iterator[Batch], features: int, progress: Progress) -> Iterator[Batch]:
    done = 0
    for batch in batches:
        yield batch
        done += len(batch[1])
        progress(min(0.99, done / features))


def moved(shapes: Shapes, source: str, target: str) -> Shapes:
    digits = DEGREE_DIGITS if target == DEGREES else METRE_DIGITS
    if source == target:
        return shapes

    def move(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        x, y = transform(CRS.from_string(source), CRS.from_string(target), points[:, 0], points[:, 1])
        return np.round(np.stack([x, y], axis=1), digits)

    return np.asarray(shapely.transform(shapes, move))


def without_wide(batch: Batch) -> Batch:
    """A zone around most of the Earth cannot be drawn in a projection of one ocean."""
    columns, shapes = batch
    keep = len(shapes) - 1
    return columns.slice(0, keep), shapes[:keep]


def with_geometry(batches: Iterator[Batch], layer: Layer, kind: str) -> pa.RecordBatchReader:
    """With a column of WKB; single shapes become multi-shapes where the layer has both."""
    schema = schema_of(layer).append(pa.field(GEOMETRY, pa.binary()))

    def rows() -> Iterator[pa.RecordBatch]:
        for columns, shapes in batches:
            if kind in PLURAL:
                shapes = np.array([plural(shape, kind) for shape in shapes], object)
            wkb = pa.array(shapely.to_wkb(shapes), pa.binary())
            yield pa.record_batch([*columns.columns, wkb], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


def plural(shape: Any, kind: str) -> Any:
    return shape if shape.geom_type == kind else PLURAL[kind]([shape])


def write_by_gdal(driver: str, **options: str) -> Writer:
    def write(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
        kind = TYPES[sample.layer]
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": MOMENT})
        try:
            pyogrio.write_arrow(
                with_geometry(batches, sample.layer, kind),
                path,
                driver=driver,
                layer=str(sample.layer),
                geometry_name=GEOMETRY,
                geometry_type=kind,
                crs=sample.crs,
                **options,
            )
        finally:
            pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})

    return write


def write_shapefile(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    """As people send them: all its files in one archive."""
    inside = path.parent / f"{sample.layer}.shp"
    write_by_gdal("ESRI Shapefile", ENCODING="UTF-8", DBF_DATE_LAST_UPDATE=MOMENT[:10])(inside, sample, batches)
    parts = sorted(path.parent.glob(f"{sample.layer}.*"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in parts:
            entry = zipfile.ZipInfo(part.name, ZIP_MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as stream, part.open("rb") as source:
                shutil.copyfileobj(source, stream)


def write_geoparquet(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    kind = TYPES[sample.layer]
    reader = with_geometry(batches, sample.layer, kind)
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": [kind]}
    if sample.crs != DEGREES:
        column["crs"] = CRS.from_string(sample.crs).to_dict(projjson=True)
    geo = {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
    schema = reader.schema.with_metadata({"geo": json.dumps(geo)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))


def write_geojson(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f'{{"type": "FeatureCollection", "name": {json.dumps(str(sample.layer))}, "features": [')
        mark = "\n"
        for feature in features_of(batches):
            stream.write(mark + json.dumps(feature, ensure_ascii=False))
            mark = ",\n"
        stream.write("\n]}\n")


def write_geojsonseq(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for feature in features_of(batches):
            stream.write(json.dumps(feature, ensure_ascii=False) + "\n")


def features_of(batches: Iterator[Batch]) -> Iterator[dict[str, Any]]:
    for columns, shapes in batches:
        for row, shape in zip(columns.to_pylist(), shapes, strict=True):
            properties = {name: as_text(value) for name, value in row.items()}
            yield {"type": "Feature", "properties": properties, "geometry": shapely.geometry.mapping(shape)}


def as_text(value: Any) -> Any:
    """Dates and times as ISO 8601; everything else as it is."""
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else value


def write_csv(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    """As spreadsheets do: a mark of the encoding first, commas, CRLF."""
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*schema_of(sample.layer).names, "lat", "lon"])
        for row, shape in plain_rows(batches):
            writer.writerow([*row, f"{shape.y:.{DEGREE_DIGITS}f}", f"{shape.x:.{DEGREE_DIGITS}f}"])


def write_csv_wkt(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    """As databases do: semicolons, LF, and the geometry as text."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=";", lineterminator="\n")
        writer.writerow([*schema_of(sample.layer).names, "wkt"])
        for row, shape in plain_rows(batches):
            writer.writerow([*row, shapely.to_wkt(shape, rounding_precision=DEGREE_DIGITS)])


def plain_rows(batches: Iterator[Batch]) -> Iterator[tuple[list[Any], Any]]:
    for columns, shapes in batches:
        for row, shape in zip(columns.to_pylist(), shapes, strict=True):
            yield ["" if value is None else as_text(value) for value in row.values()], shape


def write_kml(path: Path, sample: VectorSample, batches: Iterator[Batch]) -> None:
    """Points as a program for globes saves them: name and time in KML's own elements, the rest as extended data."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n')
        stream.write(f"<name>{sample.layer}</name><Folder><name>{sample.layer}</name>\n")
        for columns, shapes in batches:
            for row, shape in zip(columns.to_pylist(), shapes, strict=True):
                stream.write(placemark(row, shape))
        stream.write("</Folder></Document></kml>\n")


def placemark(row: dict[str, Any], shape: Any) -> str:
    moment = row.pop("observed_at")
    when = "" if moment is None else f"<TimeStamp><when>{as_text(moment)}</when></TimeStamp>"
    extended = "".join(
        f'<Data name="{name}"><value>{escape(str(as_text(value)), quote=False)}</value></Data>'
        for name, value in row.items()
        if value is not None and name != "name"
    )
    return (
        f"<Placemark><name>{escape(row['name'], quote=False)}</name>{when}<ExtendedData>{extended}</ExtendedData>"
        f"<Point><coordinates>{shape.x:.{DEGREE_DIGITS}f},{shape.y:.{DEGREE_DIGITS}f}</coordinates></Point></Placemark>\n"
    )


WRITERS: dict[Format, Writer] = {
    Format.GPKG: write_by_gdal("GPKG"),
    Format.FLATGEOBUF: write_by_gdal("FlatGeobuf"),
    Format.SHAPEFILE: write_shapefile,
    Format.GEOPARQUET: write_geoparquet,
    Format.GEOJSON: write_geojson,
    Format.GEOJSONSEQ: write_geojsonseq,
    Format.CSV: write_csv,
    Format.CSV_WKT: write_csv_wkt,
    Format.KML: write_kml,
}

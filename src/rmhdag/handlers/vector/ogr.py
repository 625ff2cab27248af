"""Files that GDAL reads: GeoPackage, GeoJSON, FlatGeobuf, KML, shapefiles and File Geodatabases.

pyogrio brings a GDAL of its own. It registers its drivers when it is imported: all but the ones named here are left
out, so that no file can call another one. Files are private copies in a folder of their own; nothing lies beside them.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from rmhdag.handlers.vector.crs_texts import require_no_pointers
from rmhdag.handlers.vector.damage import damaged, require_all_rows
from rmhdag.handlers.vector.formats import Format
from rmhdag.handlers.vector.geojson import FEATURE_ID, NO_IDS, FeatureIds
from rmhdag.handlers.vector.geojson_members import require_whole_features
from rmhdag.handlers.vector.layers import Batch, Layer, batch_rows
from rmhdag.handlers.vector.moments import MOMENT, is_moment, moments_of
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.handlers.vector_limits import VectorLimits
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage.gdal import CLOSED

DRIVERS = frozenset({"GPKG", "GeoJSON", "GeoJSONSeq", "FlatGeobuf", "LIBKML", "ESRI Shapefile", "OpenFileGDB"})
# All drivers of the known builds but those.
SKIPPED = (
    "ADBC,AIVector,AVCBin,AVCE00,AmigoCloud,CSV,CSW,Carto,DGN,DXF,EDIGEO,EEDA,ESRIJSON,Elasticsearch,GDALG,GML,GPSBabel,"
    "GPX,GTFS,GeoRSS,HTTP,Idrisi,JML,JSONFG,KML,LVBAG,MBTiles,MVT,MapInfo File,MapML,MiraMonVector,NGW,OAPIF,"
    "ODS,OGCAPI,OGR_GMT,OGR_PDS,OGR_VRT,OSM,PCIDSK,PDF,PDS4,PGDUMP,PLSCENES,PMTiles,S57,SQLite,SXF,Selafin,TopoJSON,VDV,"
    "VFK,VICAR,WAsP,WFS,XLSX,VRT,GTI,WMS,WMTS,STACIT,STACTA,Zarr,GTiff,COG"
)
OPTIONS = {
    **CLOSED,
    # A shapefile is several files in a folder of ours.
    "GDAL_DISABLE_READDIR_ON_OPEN": "FALSE",
    "OGR_SQLITE_LOAD_EXTENSIONS": "",
    "OGR_GPKG_ALLOW_VIEWS": "YES",
    "SQLITE_USE_OGR_VFS": "NO",
    "LIBKML_RESOLVE_STYLE": "NO",
    "GDAL_NUM_THREADS": "1",
    "OGR_GEOJSON_MAX_OBJ_SIZE": "200",
    "SHAPE_RESTORE_SHX": "NO",
}
EXPECTED_DRIVER = {
    Format.GPKG: "GPKG",
    Format.GEOJSON: "GeoJSON",
    Format.FLATGEOBUF: "FlatGeobuf",
    Format.KML: "LIBKML",
}
# GDAL would give the time of the clock without its zone: always, or where only some times have one.
TIMES_AS_TEXT = frozenset({"FlatGeobuf", "GeoJSON", "GeoJSONSeq", "LIBKML"})
SHAPEFILE, GEODATABASE, SEQUENCE = "ESRI Shapefile", "OpenFileGDB", "GeoJSONSeq"
# A layer with two of these holds styles of a QGIS project, not data.
QGIS_COLUMNS = frozenset(
    "geometry_generator label_expression stylename styleqml stylesld useasdefault f_table_catalog "
    "f_geometry_column".split()
)
MOST_NAMED = 10
# Numbers of features that the program which wrote the file gives by itself. Others are data.
OWN_NUMBERS = frozenset({"", "fid", "ogc_fid", "objectid"})
# The name of the column if a property is called `id` too.
OTHER_ID = "feature_id"
# Of a KML file: in which of its folders a place is.
FOLDER, OTHER_FOLDER = "folder", "kml_folder"
MADE_UP, SAME_NAME = re.compile(r"Layer\d+"), re.compile(r" \(#\d+\)\Z")


def _load() -> Any:
    before = os.environ.get("GDAL_SKIP")
    os.environ["GDAL_SKIP"] = SKIPPED
    try:
        import pyogrio
        import pyogrio.raw
    finally:
        if before is None:
            del os.environ["GDAL_SKIP"]
        else:
            os.environ["GDAL_SKIP"] = before
    pyogrio.set_gdal_config_options(OPTIONS)
    return pyogrio


pyogrio = _load()
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError, FieldError, GeometryError  # noqa: E402

ERRORS = (DataSourceError, DataLayerError, FeatureError, FieldError, GeometryError)


def open_layers(
    path: Path,
    name: str,
    driver: str,
    layer_names: list[str] | None,
    limits: VectorLimits,
    *,
    ids: FeatureIds = NO_IDS,
) -> list[Layer]:
    """The layers that were asked for; without names, the only one with geometries. `ids`: of a GeoJSON file."""
    require_no_pointers(path, name, driver)
    with reading(name), quiet():
        layers = {str(row[0]): row[1] for row in pyogrio.list_layers(path)}
    spatial = [layer for layer, kind in layers.items() if kind is not None]
    if not layers:
        raise VectorRefused(f"{name} has no layers: check the export.", code="VECTOR_NO_FEATURES")
    findings = Findings()
    if layer_names is None:
        if not spatial:
            raise VectorRefused(
                f"{name} has no layer with geometries, only tables ({_listed(layers)}): export the features with their "
                "geometries.",
                code="VECTOR_GEOMETRY_EMPTY",
            )
        if driver != "LIBKML" and len(spatial) > 1:
            raise VectorRefused(
                f"{name} has {len(spatial)} layers: {_listed(spatial)}. Name one in layer_name, or several in "
                "layer_names.",
                code="MISSING_PARAMETER",
            )
        layer_names = spatial
        ignored = [layer for layer in layers if layer not in spatial]
        findings.add(Finding.TABLES_IGNORED, "layers without geometries are not loaded", len(ignored), ignored)
    for layer in layer_names:
        if layer not in layers:
            raise VectorRefused(
                f"{name} has no layer {layer[:100]!r}; it has {_listed(layers)}.", code="INVALID_PARAMETER"
            )
        if layer not in spatial:
            raise VectorRefused(
                f"layer {layer[:100]!r} of {name} is a table without geometries: name one of {_listed(spatial)}.",
                code="VECTOR_GEOMETRY_EMPTY",
            )
    if driver == "LIBKML" and len(layer_names) > 1 and layer_names is spatial:
        # A folder may be empty, as long as another one is not.
        layer_names = [layer for layer in spatial if _has_features(path, name, layer)] or spatial
    opened = [_open_layer(path, name, driver, layer, limits, findings, ids) for layer in layer_names]
    if driver == "LIBKML" and len(opened) > 1:
        # Folders of a KML file are not layers to its author.
        return [_together(opened, findings, path.stem)]
    return opened


def _has_features(path: Path, name: str, layer: str) -> bool:
    with reading(name), quiet():
        return bool(pyogrio.read_info(path, layer=layer)["features"])


def _open_layer(
    path: Path, name: str, driver: str, layer: str, limits: VectorLimits, findings: Findings, ids: FeatureIds
) -> Layer:
    with reading(name), quiet():
        info = pyogrio.read_info(path, layer=layer)
    if info["driver"] != driver:
        raise VectorRefused(
            f"{name} is read as {info['driver']} and named as {driver}: export it again.", code="VECTOR_FORMAT_MISMATCH"
        )
    _require_columns([str(field) for field in info["fields"]], name, layer, limits)
    count = int(info["features"])
    if count == 0:
        raise VectorRefused(f"{name} has no features in layer {layer!r}: check the export.", code="VECTOR_NO_FEATURES")
    size_bytes = (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )
    rows = batch_rows(size_bytes, count, limits)
    key = str(info["fid_column"]) if driver == "GPKG" else ""
    is_data = key.lower() not in OWN_NUMBERS
    reader = _Reader(
        str(path), name, driver, layer, rows, findings, key=FEATURE_ID if ids.are_numbers else key if is_data else None
    )
    _note_lost_ids(ids, reader, findings)

    def batches() -> Iterator[Batch]:
        rows_read = 0
        for batch in reader.batches():
            rows_read += len(batch.geometries)
            yield batch
        require_all_rows(path, name, driver, layer, rows_read, count)

    return Layer(
        layer,
        reader.schema,
        None if info["crs"] is None else str(info["crs"]),
        batches,
        count if count >= 0 else None,
        is_crs_required=driver == SHAPEFILE,
        findings=findings,
    )


def _require_columns(fields: list[str], name: str, layer: str, limits: VectorLimits) -> None:
    if len(QGIS_COLUMNS.intersection(field.lower() for field in fields)) >= 2:
        raise VectorRefused(
            f"layer {layer!r} of {name} holds styles of a QGIS project, not data: name another layer in layer_name.",
            code="INVALID_FORMAT",
        )
    if len(fields) > limits.vector_max_columns:
        raise VectorRefused(
            f"{name} has {len(fields):,} columns, and at most {limits.vector_max_columns:,} are accepted "
            "(RMHDAG_VECTOR_MAX_COLUMNS).",
            code="VECTOR_ATTRIBUTE_ERROR",
        )


def open_sequence(path: Path, name: str, layer: str, count: int, limits: VectorLimits, *, ids: FeatureIds) -> Layer:
    """GeoJSON features one after the other, of which somebody has counted `count`. GDAL reads such a file to its end
    whenever it is opened: here that is done once, whatever its name.
    """
    require_no_pointers(path, name, SEQUENCE)
    findings = Findings()
    rows = batch_rows(path.stat().st_size, count, limits)
    key = FEATURE_ID if ids.are_numbers else None
    reader = _Reader(f"{SEQUENCE}:{path}", name, SEQUENCE, None, rows, findings, keeps_open=True, key=key)
    _require_columns(reader.schema.names, name, layer, limits)
    _note_lost_ids(ids, reader, findings)

    def batches() -> Iterator[Batch]:
        rows_read = 0
        for batch in reader.batches():
            rows_read += len(batch.geometries)
            yield batch
        if rows_read < count:
            require_whole_features(path, name)
            raise damaged(name, f"it has {count:,} features, and only {rows_read:,} can be read")

    return Layer(layer, reader.schema, reader.crs, batches, count, findings=findings)


def _note_lost_ids(ids: FeatureIds, reader: _Reader, findings: Findings) -> None:
    if ids.is_lost(reader.schema.names):
        findings.add(Finding.IDS, "ids of features are not kept: put them into the properties", ids.count)


class _Reader:
    """A layer as GDAL reads it, in batches. `keeps_open`: the first reader of batches goes on where the schema was.
    `key`: the numbers of features are data, and become the column of this name.
    """

    def __init__(
        self,
        source: str,
        name: str,
        driver: str,
        layer: str | None,
        rows: int,
        findings: Findings,
        *,
        keeps_open: bool = False,
        key: str | None = None,
    ) -> None:
        self._source = source
        self._name = name
        self._driver = driver
        self._layer = layer
        self._rows = rows
        self._findings = findings
        self._has_key = key is not None
        with ExitStack() as stack:
            meta, reader = stack.enter_context(self._open())
            schema, self._geometry_name = _split_schema(reader.schema, meta)
            if key is not None:
                name_of_key = OTHER_ID if key in schema.names[1:] else key
                schema = schema.set(0, pa.field(name_of_key, pa.int64()))
            self._first = (stack.pop_all(), reader) if keeps_open else None
        self.crs = None if meta["crs"] is None else str(meta["crs"])
        self._moments = [is_moment(field) for field in schema]
        self.schema = pa.schema(
            [
                pa.field(field.name, MOMENT) if is_text else field
                for field, is_text in zip(schema, self._moments, strict=True)
            ]
        )

    @contextmanager
    def _open(self) -> Iterator[tuple[dict[str, Any], Any]]:
        with reading(self._name), ExitStack() as stack:
            with quiet():
                arrow = pyogrio.raw.open_arrow(
                    self._source,
                    layer=self._layer,
                    batch_size=self._rows,
                    use_pyarrow=True,
                    datetime_as_string=self._driver in TIMES_AS_TEXT,
                    # The first column then.
                    return_fids=self._has_key,
                )
                opened = stack.enter_context(arrow)
            yield opened

    def batches(self) -> Iterator[Batch]:
        first, self._first = self._first, None
        with ExitStack() if first is None else first[0] as stack:
            for batch in stack.enter_context(self._open())[1] if first is None else first[1]:
                place = batch.schema.get_field_index(self._geometry_name)
                columns = [column for index, column in enumerate(batch.columns) if index != place]
                columns = [
                    moments_of(column, field.name, self._findings) if is_text else column
                    for column, field, is_text in zip(columns, self.schema, self._moments, strict=True)
                ]
                yield Batch(pa.RecordBatch.from_arrays(columns, schema=self.schema), batch.column(place))


def _split_schema(schema: pa.Schema, meta: dict[str, Any]) -> tuple[pa.Schema, str]:
    name = meta.get("geometry_name") or "wkb_geometry"
    if schema.get_field_index(name) < 0:
        name = next(
            field.name
            for field in schema
            if (field.metadata or {}).get(b"ARROW:extension:name") in (b"geoarrow.wkb", b"ogc.wkb")
        )
    return pa.schema([field for field in schema if field.name != name]), name


def _together(layers: list[Layer], findings: Findings, stem: str) -> Layer:
    """One layer of all: columns by their names, text where the types differ, and the name of the folder as the last."""
    fields: dict[str, pa.Field] = {}
    for layer in layers:
        for field in layer.schema:
            field_before = fields.get(field.name)
            same = field_before is None or field_before.type == field.type
            fields[field.name] = field if same else pa.field(field.name, pa.string())
    folder = FOLDER if FOLDER not in {name.lower() for name in fields} else OTHER_FOLDER
    schema = pa.schema([*fields.values(), pa.field(folder, pa.string())])

    def batches() -> Iterator[Batch]:
        for layer in layers:
            for batch in layer.batches():
                rows = batch.attributes.num_rows
                columns = [
                    batch.attributes.column(field.name).cast(field.type)
                    if field.name in batch.attributes.schema.names
                    else pa.nulls(rows, field.type)
                    for field in fields.values()
                ]
                columns.append(pa.repeat(pa.scalar(_folder_name(layer.name, stem), pa.string()), rows))
                yield Batch(pa.RecordBatch.from_arrays(columns, schema=schema), batch.geometries)

    return Layer(
        layers[0].name,
        schema,
        layers[0].crs,
        batches,
        sum(layer.count or 0 for layer in layers) or None,
        findings=findings,
    )


def _folder_name(layer: str, stem: str) -> str | None:
    """As its author has called it: GDAL names the document after its file, numbers folders without a name and those of
    the same name.
    """
    return None if layer == stem or MADE_UP.fullmatch(layer) else SAME_NAME.sub("", layer)


@contextmanager
def quiet() -> Iterator[None]:
    """Without GDAL's remarks on files that are accepted: what matters in them is counted by us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What GDAL says about a file becomes a refusal; the path of our copy stays out of it."""
    try:
        yield
    except ERRORS as error:
        reason = " ".join(str(error).split())
        words = [word for word in reason.split() if "/" not in word]
        quoted = mask_and_cut(" ".join(words), 300)
        raise VectorRefused(
            f"{name} cannot be read ({quoted}): check it with ogrinfo, and export it again.",
            code="VECTOR_UNREADABLE",
        ) from None
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow's, about what GDAL has read.
        quoted = mask_and_cut(str(error), 200)
        raise VectorRefused(
            f"{name} is damaged or incomplete ({quoted}): compare its size, and upload it again.",
            code="CORRUPTED_FILE",
        ) from None
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        is_text = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error).upper().replace("-", "")
        raise VectorRefused(
            f"{name} has text that is not in its declared encoding: export it as UTF-8."
            if is_text
            else f"{name} is damaged ({mask_and_cut(str(error), 200)}): export it again.",
            code="VECTOR_ENCODING_ERROR" if is_text else "CORRUPTED_FILE",
        ) from None


def _listed(names: Any) -> str:
    words = [repr(str(layer)[:60]) for layer in names]
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more

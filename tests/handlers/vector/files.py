"""Vector files for tests, made on the spot, and what became of them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import shapely

from rmhdag.handlers.vector.ogr import pyogrio, quiet
from rmhdag.models.blobs import BlobRef
from rmhdag.testing.bench import HandlerBench, HandlerRun

SHAPEFILE_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")


def collection(*features: tuple[Any, Mapping[str, Any]]) -> str:
    """GeoJSON of geometries (as mappings, or as shapes) with their properties."""
    return json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {
                    "type": "Feature",
                    "properties": dict(properties),
                    "geometry": shapely.geometry.mapping(shape) if hasattr(shape, "geom_type") else shape,
                }
                for shape, properties in features
            ],
        }
    )


def zipped(files: Mapping[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return memory.getvalue()


def zipped_folder(folder: Path, prefix: str = "") -> bytes:
    return zipped(
        {
            f"{prefix}{path.relative_to(folder)}": path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    )


def write(
    path: Path, shapes: list[Any], columns: Mapping[str, list[Any]], *, crs: str | None = "EPSG:4326", **options: Any
) -> Path:
    """By GDAL; the driver follows from the name."""
    # Unless somebody in this process has left its drivers out, GPSBabel has this ending too.
    if path.suffix == ".gdb":
        options.setdefault("driver", "OpenFileGDB")
    fields = list(columns)
    arrays = [np.array(values) for values in columns.values()]
    kind = options.pop("geometry_type", shapes[0].geom_type)
    wkb = shapely.to_wkb(np.array(shapes, dtype=object))
    with quiet():
        pyogrio.raw.write(path, wkb, arrays, fields, geometry_type=kind, crs=crs, **options)
    return path


def prepare(
    bench: HandlerBench, content: bytes | str | Path, name: str, *, job_id: str = "job", **params: Any
) -> HandlerRun:
    bench.put(content, name)
    words = {"container_name": "in", "blob_name": name, "table_name": "t", "target": "geoparquet", **params}
    return bench.run("vector.prepare", words, job_id=job_id)


def rows_of(bench: HandlerBench, run: HandlerRun) -> list[dict[str, Any]]:
    """All prepared features, in their order, with their geometries as shapes."""
    manifest = json.loads(bench.path(run.output["manifest"]).read_bytes())
    rows = []
    for part in manifest["parts"]:
        table = manifest["tables"][part["table"]]
        columns = ["geom", *(column["name"] for column in table["columns"])]
        table = pq.read_table(bench.path(BlobRef.model_validate(part["file"])), columns=columns)
        rows += [{**row, "geom": shapely.from_wkb(row["geom"])} for row in table.to_pylist()]
    return rows


def codes_of(run: HandlerRun) -> dict[str, int]:
    return {warning.code: warning.count for warning in run.warnings}

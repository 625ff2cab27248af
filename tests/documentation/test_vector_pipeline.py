"""The page about vectors is true: its commands run, its handler counts, its settings and lists exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psycopg

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.handlers.manifest import shipped_manifest
from rmhdag.handlers.vector.formats import EXTENSIONS
from rmhdag.testing.bench import HandlerBench
from rmhdag.workflow import load_file
from tests.conftest import required_postgis
from tests.documentation.fences import fences_of
from tests.documentation.terminal import open_terminal
from tests.handlers.vector.test_formats import OUTCOMES
from tests.store.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
NAME = "docs/vector-pipeline.md"
PAGE = (ROOT / NAME).read_text(encoding="utf-8")
WELLS = "name,lat,lon,depth,drilled\nA1,50.5,7.25,31.5,2019-04-01\nB2,51.75,-8.125,,2021-11-30\n"


def test_its_commands_load_a_file() -> None:
    """As printed, and then as the page goes on: without `target`, into a table."""
    required_postgis()
    (load,) = fences_of(NAME, "sh")
    with open_terminal() as terminal:
        (terminal.folder / "wells.csv").write_text(WELLS, encoding="utf-8")
        terminal.type("rmhdag up")
        *_, result = terminal.run(load)
        files = json.loads(result)
        assert (files["row_count"], files["tables"]) == (2, [])
        (file,) = files["files"]
        terminal.type(f"rmhdag storage get {file['zone']}/{file['container']}/{file['path']} wells.parquet")
        assert (terminal.folder / "wells.parquet").stat().st_size == file["size_bytes"]
        submit = load.commands()[-1].replace(" target=geoparquet", "")
        tables = json.loads(terminal.type(submit))["tables"]
        assert [table["collection"] for table in tables] == ["geo.wells"]
        folder = terminal.folder / "data" / "postgres"
        port = json.loads((folder / "server.json").read_text())["port"]
        password = (folder / "password.geo").read_text().strip()
        with psycopg.connect(f"postgresql://rmhdag_geo:{password}@127.0.0.1:{port}/rmhdag", autocommit=True) as conn:
            shown = "SELECT count(*) FROM geo.table_catalog WHERE table_name = 'wells'"
            wait_until(lambda: conn.execute(shown).fetchone() == (1,) or None)
            query = "SELECT f_name, depth, drilled::text, ST_AsText(ST_GeometryN(geom, 1)) FROM geo.wells ORDER BY id"
            assert conn.execute(query).fetchall() == [
                ("A1", 31.5, "2019-04-01", "POINT(7.25 50.5)"),
                ("B2", None, "2021-11-30", "POINT(-8.125 51.75)"),
            ]
            reads = "SELECT has_schema_privilege('dagapp', 'USAGE')"
            assert conn.execute(reads).fetchone() == (False,), "the role sees nothing of the platform"


def test_its_handler_reaches_the_data_database(tmp_path: Path, postgis_dsn: str) -> None:
    (fence,) = fences_of(NAME, "python")
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(fence.text, fence.place, "exec"), names)
    bench = HandlerBench(tmp_path, postgis_url=postgis_dsn)
    run = bench.run(names["count"], {})  # type: ignore[arg-type]
    assert run.output["tables"] >= 0


def test_its_lists_are_whole() -> None:
    variables = {name for field in Settings.model_fields for name in variables_of(field)}
    assert set(re.findall(r"`(RMHDAG_\w+)`", PAGE)) <= variables
    named = set(re.findall(r"`((?:vector|maintenance)\.\w+)`", PAGE))
    assert named == {
        entry["handler"]
        for entry in shipped_manifest()
        if entry["handler"].startswith("vector.") or entry["handler"] == "maintenance.unpublish_vector"
    }
    assert {f".{word}" for word in EXTENSIONS if word != "geojsonseq"} <= set(re.findall(r"`(\.\w+)`", PAGE))
    files = {name.partition("/")[2].removesuffix(".shp") for name in OUTCOMES}
    assert files <= set(re.findall(r"`([\w.]+)`", PAGE))
    inputs = load_file(ROOT / "src" / "rmhdag" / "workflows" / "vector_etl.yaml").definition.inputs
    words = {"column_mapping", "geometry_params", "indexes", "temporal_property", "split_column", "create_stac"}
    assert words | {"overwrite", "target", "layer_name", "layer_names", "crs"} <= inputs.keys()

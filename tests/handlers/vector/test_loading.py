"""Loading into PostGIS: each row once, old tables or new ones, whatever is repeated or killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import shapely

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.params import ParamsRefused
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import LineageRecord, TableRecord
from rmhdag.postgis.database import DataDatabase, schemas_of
from rmhdag.postgis.loading import (
    ColumnDefinition,
    IndexWish,
    LoadingError,
    TableFacts,
    create_table,
    finish_table,
    load_chunk,
)
from rmhdag.postgis.switching import Overtaken, PlaceChange, SwitchRefused, drop_stored, switch_places
from rmhdag.testing.bench import HandlerBench, HandlerRun
from tests.handlers.vector.files import collection, prepare, write

COUNT = 950


@pytest.fixture
def database(postgis_dsn: str) -> DataDatabase:
    return DataDatabase(postgis_dsn, "default")


@pytest.fixture
def conn(database: DataDatabase) -> Iterator[Any]:
    with database.connect() as connection:
        yield connection


def prepared(loading: HandlerBench, folder: Path, table: str, **params: Any) -> HandlerRun:
    boxes = [shapely.box(n / 10, 0, n / 10 + 0.05, 1) for n in range(COUNT)]
    columns: dict[str, list[Any]] = {"id": list(range(COUNT)), "Kind": [("a", "b", "c")[n % 3] for n in range(COUNT)]}
    path = write(folder / f"{table}.gpkg", boxes, columns)
    return prepare(loading, path, f"{table}.gpkg", table_name=table, target="postgis", chunk_size=100, **params)


def upload_all(loading: HandlerBench, run: HandlerRun) -> int:
    chunks = [
        loading.run("vector.upload_chunk", {"manifest": run.output["manifest"], **chunk})
        for chunk in run.output["chunks"]
    ]
    return sum(chunk.output["rows_inserted"] for chunk in chunks)


def finish(
    loading: HandlerBench, run: HandlerRun, rows: int, indexes: Sequence[str] = ("Kind",), **words: Any
) -> list[TableRecord]:
    manifest = run.output["manifest"]
    index = loading.run("vector.index_tables", {"manifest": manifest, "loaded_rows": rows, "indexes": list(indexes)})
    params = {"manifest": manifest, "tables": index.output["tables"], **words}
    return [
        record for record in loading.run("vector.catalogue_tables", params).records if isinstance(record, TableRecord)
    ]


def changes(records: list[TableRecord], version: int, label: str = "r1") -> list[PlaceChange]:
    return [PlaceChange(record.table_name, version, record.stored_name, label, record.details) for record in records]


def test_a_file_becomes_a_public_table_with_everything_around_it(
    loading: HandlerBench, tmp_path: Path, database: DataDatabase, conn: Any
) -> None:
    conn.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA geo GRANT SELECT ON TABLES TO reader")
    run = prepared(loading, tmp_path, "parcels")
    assert run.output["num_chunks"] == 10
    rows = upload_all(loading, run)
    # Chunk 3 again, as after a lost lease: nothing is doubled.
    again = loading.run("vector.upload_chunk", {"manifest": run.output["manifest"], "chunk_index": 3})
    assert again.output == {"batch_id": "3-3", "rows_inserted": 100, "rows_deleted": 0, "rows_found": 100}
    with pytest.raises(NonRetryableError, match="949 rows were loaded, and 950"):
        finish(loading, run, rows - 1)
    records = finish(loading, run, rows, split_column="Kind", title="Parcels", properties={"source": "cadastre"})
    assert [record.table_name for record in records] == [
        "parcels",
        "parcels_kind_a",
        "parcels_kind_b",
        "parcels_kind_c",
    ]
    assert conn.execute("SELECT to_regclass('geo.parcels')").fetchone() == (None,), "nobody sees it yet"
    switch_places(database, conn, changes(records, 1))
    query = "SELECT count(*), count(DISTINCT source_id), min(id), max(id), min(ST_SRID(geom)) FROM geo.parcels"
    assert conn.execute(query).fetchone() == (COUNT, COUNT, 1, COUNT, 4326)
    assert conn.execute("SELECT count(*) FROM geo.parcels_kind_a").fetchone() == (317,)
    entry = """SELECT title, feature_count, geometry_type, custom_properties, column_definitions->'kind'
        FROM geo.table_catalog WHERE table_name = %s"""
    assert conn.execute(entry, ["parcels"]).fetchone() == (
        "Parcels", COUNT, "MultiPolygon", {"source": "cadastre", "tipg_collection_id": "geo.parcels"},
        {"type": "text", "source_name": "Kind"},
    )  # fmt: skip
    assert conn.execute(
        "SELECT is_default FROM geo.feature_collection_styles WHERE collection_id = 'geo.parcels'"
    ).fetchone() == (True,)
    kinds = conn.execute(
        "SELECT count(*) FROM pg_indexes WHERE schemaname = 'geo' AND tablename = 'parcels'"
    ).fetchone()
    assert kinds == (3,), "the key, the geometry, and the column that was asked for"
    assert conn.execute("SELECT has_table_privilege('reader', 'geo.parcels', 'SELECT')").fetchone() == (True,)


def test_revisions_replace_each_other_and_come_back(
    loading: HandlerBench, tmp_path: Path, database: DataDatabase, conn: Any
) -> None:
    first = finish(loading, one := prepared(loading, tmp_path, "sites"), upload_all(loading, one))
    loading_again = HandlerBench(tmp_path / "2", postgis_url=loading.postgis_url)
    run = prepare(
        loading_again,
        collection((shapely.box(0, 0, 1, 1), {"n": 1})),
        "s.geojson",
        job_id="2",
        table_name="sites",
        target="postgis",
    )
    # Another job: the stored name is its own.
    manifest = loading_again.path(run.output["manifest"]).read_text()
    second_name = finish_small(loading_again, run)
    assert second_name[0].stored_name in manifest
    switch_places(database, conn, changes(first, 1, "r1"))
    switch_places(database, conn, changes(second_name, 2, "r2"))
    assert conn.execute("SELECT count(*) FROM geo.sites").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM geo_work.sites_r1").fetchone() == (COUNT,)
    with pytest.raises(Overtaken):
        switch_places(database, conn, changes(first, 1, "r1"))
    switch_places(database, conn, changes(first, 3, "r3"))
    assert conn.execute("SELECT count(*) FROM geo.sites").fetchone() == (COUNT,)
    assert drop_stored(database, conn, first[0].stored_name) is False, "it is shown"
    assert drop_stored(database, conn, second_name[0].stored_name)
    assert drop_stored(database, conn, second_name[0].stored_name), "twice does no harm"
    switch_places(database, conn, [PlaceChange("sites", 4, None)])
    assert conn.execute("SELECT to_regclass('geo.sites'), to_regclass('geo_work.sites_r3') IS NOT NULL").fetchone() == (
        None,
        True,
    )
    assert conn.execute("SELECT count(*) FROM geo.table_catalog WHERE table_name = 'sites'").fetchone() == (0,)
    with pytest.raises(SwitchRefused, match="load it again"):
        switch_places(database, conn, changes(second_name, 5))


@pytest.mark.parametrize(
    ("column", "words"),
    [("many", "more than 20 values"), ("share", "whole numbers or true and false"), ("nothing", "has no column")],
)
def test_a_column_that_makes_no_views_is_refused_once(loading: HandlerBench, column: str, words: str) -> None:
    features = [(shapely.Point(n, n), {"many": n, "share": n / 7}) for n in range(21)]
    name = f"split_{column}"
    run = prepare(loading, collection(*features), "a.geojson", job_id=name, table_name=name, target="postgis")
    with pytest.raises(VectorRefused, match=words) as refusal:
        finish(loading, run, upload_all(loading, run), indexes=[], split_column=column)
    assert refusal.value.error is not None
    assert refusal.value.error.code == "INVALID_PARAMETER"


def finish_small(bench: HandlerBench, run: HandlerRun) -> list[TableRecord]:
    rows = upload_all(bench, run)
    manifest = run.output["manifest"]
    index = bench.run("vector.index_tables", {"manifest": manifest, "loaded_rows": rows})
    done = bench.run("vector.catalogue_tables", {"manifest": manifest, "tables": index.output["tables"]})
    return [record for record in done.records if isinstance(record, TableRecord)]


def test_a_chunk_that_is_killed_leaves_nothing_and_two_at_once_load_it_once(database: DataDatabase, conn: Any) -> None:
    columns = [ColumnDefinition("n", "bigint")]
    shape = shapely.to_wkb(shapely.MultiPolygon([shapely.box(0, 0, 1, 1)]))
    create_table(database, conn, "killed_1", "MultiPolygon", columns)
    create_table(database, conn, "killed_1", "MultiPolygon", columns)

    def rows(
        end: type[BaseException] | None = None,
        started: threading.Event | None = None,
        go: threading.Event | None = None,
    ) -> Iterator[Any]:
        for number in range(100):
            yield pa.RecordBatch.from_arrays([pa.array([shape]), pa.array([number])], names=["geom", "n"])
            if number == 50 and started is not None and go is not None:
                started.set()
                go.wait(20)
            if number == 50 and end is not None:
                raise end

    with pytest.raises(KeyboardInterrupt):
        load_chunk(database, conn, "killed_1", "0", "h", 1, columns, rows(KeyboardInterrupt))
    with database.connect() as after:
        assert after.execute("SELECT count(*) FROM geo_work.killed_1").fetchone() == (0,)
        started, go = threading.Event(), threading.Event()
        results = []

        def load(*waits: Any) -> None:
            with database.connect() as own:
                results.append(load_chunk(database, own, "killed_1", "0", "h", 1, columns, rows(None, *waits)))

        slow = threading.Thread(target=load, args=(started, go))
        slow.start()
        assert started.wait(20)
        quick = threading.Thread(target=load)
        quick.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%loaded_chunks%'"
        )
        while after.execute(waiting).fetchone() == (0,):
            quick.join(0.02)
        go.set()
        slow.join(20)
        quick.join(20)
        assert sorted(result.is_new for result in results) == [False, True]
        assert after.execute("SELECT count(*), count(DISTINCT id) FROM geo_work.killed_1").fetchone() == (100, 100)
        # Other content under the same number replaces the rows.
        result = load_chunk(database, after, "killed_1", "0", "other", 1, columns, rows())
        assert (result.deleted_count, result.row_count) == (100, 100)


def test_geometries_are_indexed_aside_and_a_second_attempt_finds_the_index(
    database: DataDatabase, conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmhdag.postgis.loading.ASIDE_ROWS", 1)
    columns = [ColumnDefinition("n", "bigint")]
    create_table(database, conn, "aside_1", "MultiPolygon", columns)
    shape = shapely.to_wkb(shapely.MultiPolygon([shapely.box(0, 0, 1, 1)]))
    batch = pa.RecordBatch.from_arrays([pa.array([shape] * 50), pa.array(range(50))], names=["geom", "n"])
    load_chunk(database, conn, "aside_1", "0", "h", 1, columns, [batch])
    # The first attempt fails after the index of geometries is made, as a worker that dies between the two.
    with pytest.raises(LoadingError, match="50 rows, and 51 were prepared"):
        finish_table(database, conn, "aside_1", 51, IndexWish(attributes=["n"]))
    names = "SELECT array_agg(indexname ORDER BY indexname) FROM pg_indexes WHERE tablename = 'aside_1'"
    assert conn.execute(names).fetchone() == (["idx_aside_1_geom"],)
    for _ in range(2):
        facts = finish_table(database, conn, "aside_1", 50, IndexWish(attributes=["n"], temporal=["n"]))
        assert facts == TableFacts(50, (0.0, 0.0, 1.0, 1.0))
        indexes = ["aside_1_pkey", "idx_aside_1_geom", "idx_aside_1_n", "idx_aside_1_n_desc"]
        assert conn.execute(names).fetchone() == (indexes,)
    conn.execute("INSERT INTO geo_work.aside_1 (n) VALUES (1)")
    assert conn.execute("SELECT max(id) FROM geo_work.aside_1").fetchone() == (51,)


def test_tables_of_others_are_never_touched(loading: HandlerBench, database: DataDatabase, conn: Any) -> None:
    conn.execute("CREATE TABLE geo.foreign_table (n int)")
    with pytest.raises(NonRetryableError, match="was not made by rmhdag"):
        prepare(
            loading, collection((shapely.Point(1, 1), {})), "a.geojson", table_name="foreign_table", target="postgis"
        )
    create_table(database, conn, "foreign_1", "MultiPoint", [])
    with pytest.raises(SwitchRefused, match="not made by rmhdag"):
        switch_places(database, conn, [PlaceChange("foreign_table", 1, "foreign_1")])
    with pytest.raises(NonRetryableError, match="system data"):
        prepare(loading, collection((shapely.Point(1, 1), {})), "a.geojson", table_name="curated_x", target="postgis")


def test_a_reader_delays_the_switch_and_never_sees_half_of_it(
    loading: HandlerBench, tmp_path: Path, database: DataDatabase, conn: Any
) -> None:
    mixed = collection((shapely.Point(1, 1), {"n": 1}), (shapely.box(0, 0, 1, 1), {"n": 2}))
    records = finish_small(loading, prepare(loading, mixed, "m.geojson", table_name="mixed", target="postgis"))
    switch_places(database, conn, changes(records, 1))
    with database.connect() as reader, reader.transaction():
        reader.execute("SELECT * FROM geo.mixed_point")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            switch_places(database, conn, [PlaceChange(record.table_name, 2, None) for record in records])
        assert conn.execute("SELECT to_regclass('geo.mixed_polygon') IS NOT NULL").fetchone() == (True,), "all or none"


def test_one_task_does_it_all_and_continues_where_it_was(loading: HandlerBench, tmp_path: Path, conn: Any) -> None:
    path = write(tmp_path / "c.gpkg", [shapely.box(n, 0, n + 0.5, 1) for n in range(150)], {"n": list(range(150))})
    loading.put(path, "c.gpkg")
    params = {"container_name": "in", "blob_name": "c.gpkg", "table_name": "complete", "chunk_size": 100}
    run = loading.run("vector.docker_complete", params)
    assert (run.output["tables_created"][0]["row_count"], run.output["shown"][0]["collection"]) == (150, "geo.complete")
    phases = [checkpoint.phase for checkpoint in run.checkpoints]
    assert phases == ["validated", "table_created", "chunk_0", "chunk_1", "complete"]
    for checkpoint in run.checkpoints:
        again = loading.run("vector.docker_complete", params, resume=checkpoint)
        assert again.output["tables_created"] == run.output["tables_created"]
        assert [record.type for record in again.records] == [record.type for record in run.records]


def test_the_catalogue_has_what_people_said_until_they_say_something_else(
    loading: HandlerBench, tmp_path: Path, database: DataDatabase, conn: Any
) -> None:
    run = prepared(loading, tmp_path, "words")
    rows = upload_all(loading, run)
    said = {
        "providers": [{"name": "Survey"}], "sci:doi": "10.1000/1", "sci_citation": "Survey 2020",
        "stac_extensions": ["https://stac-extensions.github.io/scientific/v1.0.0/schema.json"],
        "keywords": "land, parcels", "season": "dry",
    }  # fmt: skip
    first = finish(loading, run, rows, license="CC-BY-4.0", properties=said, collection_id="land")
    second = finish(loading, run, rows, properties={"scale": 5})
    switch_places(database, conn, changes(first, 1))
    item = "SELECT stac_collection_id, stac_item_id FROM geo.table_catalog WHERE table_name = 'words'"
    assert conn.execute(item).fetchone() == ("land", "words")
    switch_places(database, conn, changes(second, 2))
    assert conn.execute(item).fetchone() == (None, None), "the item describes the load before"
    query = """SELECT license, providers, sci_doi, sci_citation, stac_extensions, keywords, custom_properties
        FROM geo.table_catalog WHERE table_name = 'words'"""
    assert conn.execute(query).fetchone() == (
        "CC-BY-4.0", said["providers"], "10.1000/1", "Survey 2020", said["stac_extensions"], "land, parcels",
        {"season": "dry", "scale": 5, "tipg_collection_id": "geo.words"},
    )  # fmt: skip


@pytest.mark.parametrize("words", [{"title": "x" * 501}, {"title": 5}, {"providers": "Survey"}, {"sci:doi": [1]}])
def test_words_that_the_catalogue_cannot_hold_are_refused_before_the_table_is_handed_over(
    loading: HandlerBench, tmp_path: Path, words: dict[str, Any]
) -> None:
    run = prepared(loading, tmp_path, "refused")
    with pytest.raises(ParamsRefused, match=next(iter(words))):
        finish(loading, run, upload_all(loading, run), properties=words)


def test_namespaces_have_schemas_of_their_own(loading: HandlerBench, postgis_dsn: str) -> None:
    assert schemas_of("default") == ("geo", "geo_work")
    assert schemas_of("alpha") == ("geo-alpha", "geo_work-alpha")
    with DataDatabase(postgis_dsn, "alpha").connect() as conn:
        create_table(DataDatabase(postgis_dsn, "alpha"), conn, "t_1", "MultiPoint", [])
        query = """SELECT to_regclass('"geo_work-alpha".t_1') IS NOT NULL, to_regclass('geo_work.t_1') IS NOT NULL"""
        assert conn.execute(query).fetchone() == (True, False)


def test_derived_data_is_loaded_like_a_file(loading: HandlerBench, tmp_path: Path) -> None:
    run = prepared(loading, tmp_path, "fields")
    manifest = run.output["manifest"]
    coarse = loading.run("vector.simplify", {"manifest": manifest, "table_name": "fields_coarse", "tolerance": 0.01})
    assert coarse.output["total_features"] == COUNT
    merged = loading.run(
        "vector.dissolve",
        {"manifest": manifest, "table_name": "fields_merged", "by": ["Kind"], "aggregates": {"id": "max"}},
    )
    assert (merged.output["total_features"], merged.output["original_row_count"]) == (3, COUNT)
    [origin] = [record for record in merged.records if isinstance(record, LineageRecord)]
    assert (origin.source_url, origin.role) == (loading.path(manifest).as_uri(), "prepared")
    [record] = finish_small(loading, merged)
    assert record.feature_count == 3
    with DataDatabase(str(loading.postgis_url), "default").connect() as conn:
        rows = conn.execute(
            f"SELECT kind, source_id_max, feature_count FROM geo_work.{record.stored_name} ORDER BY kind"
        ).fetchall()
    assert rows == [("a", 948, 317), ("b", 949, 317), ("c", 947, 316)]


def test_a_manifest_that_is_gone_is_a_sentence(loading: HandlerBench, tmp_path: Path) -> None:
    run = prepared(loading, tmp_path, "gone")
    loading.path(BlobRef.model_validate(run.output["manifest"])).unlink()
    with pytest.raises(NonRetryableError, match="prepare the file again"):
        loading.run("vector.upload_chunk", {"manifest": run.output["manifest"], "first": 0, "last": 0})

"""`vector.create_stac`: an item that readers of STAC accept, for prepared data of any kind."""

from __future__ import annotations

import pystac
import pytest
import shapely

from rmhdag.handlers.params import ParamsRefused
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.models.records import StacCollectionRecord, StacItemRecord
from rmhdag.testing.bench import HandlerBench
from tests.handlers.vector.files import collection, prepare

MIXED = collection((shapely.Point(7, 50), {"n": 1}), (shapely.box(8, 51, 9, 52), {"n": 2}))
SPAN = {"start_datetime": "2020-01-01T00:00:00Z", "end_datetime": "2021-01-01T00:00:00Z"}


def test_an_item_describes_all_tables_of_a_file(bench: HandlerBench) -> None:
    run = prepare(bench, MIXED, "sites.geojson", table_name="sites")
    words = {"manifest": run.output["manifest"], "source": run.output["source"], "collection_id": "vectors"}
    done = bench.run("vector.create_stac", {**words, "properties": {"title": "Sites"}})
    item = pystac.Item.from_dict(done.output["item"])
    assert (done.output["item_id"], item.id, item.collection_id) == ("sites", "sites", "vectors")
    assert done.output["bbox"] == item.bbox == [7, 50, 9, 52]
    assert (done.output["row_count"], done.output["geometry_types"]) == (2, ["MultiPoint", "MultiPolygon"])
    assert item.properties["title"] == "Sites"
    assert [table["name"] for table in item.properties["vector:tables"]] == ["sites_polygon", "sites_point"]
    assert [asset.media_type for asset in item.assets.values()] == ["application/vnd.apache.parquet"] * 2
    assert [warning.code for warning in done.warnings] == ["DATETIME_ASSUMED"]
    assert [type(record) for record in done.records] == [StacCollectionRecord, StacItemRecord]


def test_times_are_those_that_the_order_names(bench: HandlerBench) -> None:
    run = prepare(bench, collection((shapely.Point(7, 50), {})), "a.geojson")
    words = {"manifest": run.output["manifest"], "collection_id": "vectors", "item_id": "one"}
    done = bench.run("vector.create_stac", {**words, **SPAN})
    item = pystac.Item.from_dict(done.output["item"])
    assert (item.id, list(item.assets), done.warnings) == ("one", ["data"], ())
    assert item.common_metadata.start_datetime is not None
    with pytest.raises(ParamsRefused, match="give both"):
        bench.run("vector.create_stac", {**words, "start_datetime": SPAN["start_datetime"]})


MOMENTS = {
    "dates": (["2021-11-30", None, "2019-04-01"], "2019-04-01T00:00:00+00:00", "2021-11-30T23:59:59+00:00"),
    "times with zones": (
        ["2020-01-01T01:00:00+02:00", "2020-06-01T00:00:00Z", "2020-05-31T22:30:00-05:00"],
        "2019-12-31T23:00:00+00:00",
        "2020-06-01T03:30:00+00:00",
    ),
    "times without zones": (
        ["2020-01-01T01:00:00", "2020-01-01T01:00:00"], "2020-01-01T01:00:00+00:00", "2020-01-01T01:00:00+00:00",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOMENTS.values(), ids=MOMENTS)
def test_the_span_is_that_of_a_column(bench: HandlerBench, case: tuple[list[str | None], str, str]) -> None:
    """Over all tables: points and polygons take turns. A feature that is left out does not count."""
    values, first, last = case
    shapes = [shapely.Point(7, 50), shapely.box(8, 51, 9, 52)] * 2
    features = [*zip(shapes, values, strict=False), (None, "1900-01-01" + (values[0] or "")[10:])]
    content = collection(*((shape, {"Built": value}) for shape, value in features))
    run = prepare(bench, content, "sites.geojson", table_name="sites")
    words = {"manifest": run.output["manifest"], "collection_id": "vectors", "temporal_property": "Built"}
    done = bench.run("vector.create_stac", words)
    item = pystac.Item.from_dict(done.output["item"])
    properties = item.properties
    assert (properties["datetime"], properties["start_datetime"], properties["end_datetime"]) == (None, first, last)
    assert item.datetime is None
    assert done.warnings == ()
    (collection_record,) = (record for record in done.records if isinstance(record, StacCollectionRecord))
    (interval,) = collection_record.collection["extent"]["temporal"]["interval"]
    assert [pystac.utils.str_to_datetime(text) for text in interval] == [
        pystac.utils.str_to_datetime(text) for text in (first, last)
    ]
    given = bench.run("vector.create_stac", {**words, **SPAN}).output["item"]["properties"]
    assert given["start_datetime"] == "2020-01-01T00:00:00+00:00", "what the order says counts more"


def test_a_column_without_values_dates_nothing(bench: HandlerBench) -> None:
    content = collection((shapely.Point(7, 50), {"Built": None, "n": 1}), (shapely.Point(8, 50), {"Built": None}))
    run = prepare(bench, content, "sites.geojson")
    words = {"manifest": run.output["manifest"], "collection_id": "vectors"}
    done = bench.run("vector.create_stac", {**words, "temporal_property": "Built"})
    assert done.output["item"]["properties"]["datetime"] is not None
    ((code, message),) = ((warning.code, warning.message) for warning in done.warnings)
    assert code == "DATETIME_ASSUMED"
    assert "column 'Built' has no values" in message
    for name, words_of_refusal in (("n", "'n' is integer, and a time is needed"), ("x", "no column 'x'")):
        with pytest.raises(VectorRefused, match=words_of_refusal):
            bench.run("vector.create_stac", {**words, "temporal_property": name})


def test_what_is_derived_has_a_span_of_its_own(bench: HandlerBench) -> None:
    square = [shapely.box(n, 50, n + 1, 51) for n in range(3)]
    days = ["2019-04-01", "2020-04-01", "2021-04-01"]
    content = collection(*((shape, {"Built": day, "k": day}) for shape, day in zip(square, days, strict=True)))
    run = prepare(bench, content, "sites.geojson")
    derived = bench.run("vector.simplify", {"manifest": run.output["manifest"], "table_name": "simple"})
    words = {"manifest": derived.output["manifest"], "collection_id": "vectors", "temporal_property": "Built"}
    properties = bench.run("vector.create_stac", words).output["item"]["properties"]
    assert properties["start_datetime"] == "2019-04-01T00:00:00+00:00"

"""`vector.create_stac`: an item that readers of STAC accept, for prepared data of any kind."""

from __future__ import annotations

import pystac
import pytest
import shapely

from rmhdag.handlers.params import ParamsRefused
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

"""Handlers that ask for changes of published content, through the shipped workflow and by the original names."""

from __future__ import annotations

from pathlib import Path

import pytest

import rmhdag
from rmhdag.handlers.params import ParamsRefused
from rmhdag.models.ids import unpublishing_id_of
from rmhdag.models.records import ExternalPromotionRecord, UnpublishRecord
from rmhdag.testing import HandlerBench, run_workflow

SHIPPED = Path(rmhdag.__file__).parent / "workflows" / "unpublish_raster.yaml"
ASSET = "a" * 32


def test_the_shipped_workflow_asks_for_a_preview_by_default() -> None:
    job = run_workflow(SHIPPED, {"asset_id": ASSET})
    job.assert_completed()
    assert job.records == [UnpublishRecord(asset_id=ASSET)]
    assert job.outputs["unpublishing"]["dry_run"] is True


def test_the_shipped_workflow_passes_everything_on() -> None:
    given = {"asset_id": ASSET, "revision": 2, "dry_run": False, "force": True, "reason": "old"}
    job = run_workflow(SHIPPED, given)
    job.assert_completed()
    assert job.records == [UnpublishRecord.model_validate(given)]
    assert job.outputs["unpublishing"]["unpublishing_id"] is not None


@pytest.mark.parametrize("name", ["maintenance.unpublish_raster", "unpublish_raster"])
def test_the_names_of_the_original_system_are_understood(handler_bench: HandlerBench, name: str) -> None:
    params = {"stac_item_id": "dem", "collection_id": "survey", "dry_run": False, "force_approved": True}
    run = handler_bench.run(name, params)
    assert list(run.records) == [
        UnpublishRecord(collection_id="survey", item_id="dem", dry_run=False, force=True),
    ]


def test_a_preview_can_be_found_by_its_id(handler_bench: HandlerBench) -> None:
    run = handler_bench.run("unpublish_raster", {"asset_id": ASSET, "revision": 1}, job_id="j", node_id="n")
    assert run.output["unpublishing_id"] == unpublishing_id_of("j/n", "default", ASSET, 1)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"asset_id": ASSET, "collection_id": "c", "item_id": "i"},
        {"collection_id": "c"},
        {"collection_id": "c", "item_id": "i", "revision": 1},
        {"asset_id": "../x"},
    ],
)
def test_a_subject_is_named_in_one_way(handler_bench: HandlerBench, params: dict[str, object]) -> None:
    with pytest.raises(ParamsRefused):
        handler_bench.run("maintenance.unpublish_raster", params)


@pytest.mark.parametrize("name", ["approval.promote_to_external", "promote_to_external"])
def test_a_promotion_is_asked_for_as_a_record(handler_bench: HandlerBench, name: str) -> None:
    run = handler_bench.run(name, {"asset_id": ASSET, "service": "adf"})
    assert list(run.records) == [ExternalPromotionRecord(asset_id=ASSET, service="adf")]


@pytest.mark.parametrize("name", ["maintenance.unpublish_vector", "maintenance_unpublish_vector", "unpublish_vector"])
def test_a_table_is_taken_back_by_its_name(handler_bench: HandlerBench, name: str) -> None:
    preview = handler_bench.run(name, {"table_name": "wells", "schema_name": "geo"})
    assert list(preview.records) == [UnpublishRecord(table_name="wells")]
    assert preview.output["dry_run"] is True
    done = handler_bench.run(name, {"table_name": "wells", "dry_run": False, "force_approved": True})
    assert list(done.records) == [UnpublishRecord(table_name="wells", dry_run=False, force=True)]


def test_tables_of_the_system_are_dropped_by_force_only(handler_bench: HandlerBench) -> None:
    with pytest.raises(ParamsRefused, match="force_curated"):
        handler_bench.run("unpublish_vector", {"table_name": "curated_borders"})
    run = handler_bench.run("unpublish_vector", {"table_name": "curated_borders", "force_curated": True})
    assert list(run.records) == [UnpublishRecord(table_name="curated_borders")]


@pytest.mark.parametrize("params", [{}, {"table_name": "wells", "asset_id": ASSET}, {"table_name": "public.wells"}])
def test_a_table_is_named_in_one_way(handler_bench: HandlerBench, params: dict[str, object]) -> None:
    with pytest.raises(ParamsRefused):
        handler_bench.run("maintenance.unpublish_vector", params)

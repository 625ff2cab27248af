"""Order forms of the Data Distribution Hub, sent to the gateway."""

from __future__ import annotations

from typing import get_args

import httpx
import pytest

from rmhdag.cli.shipped_workflows import shipped_folder
from rmhdag.gateway.ddh_forms import Options, RasterType, VectorOptions
from rmhdag.gateway.ddh_names import request_id
from rmhdag.workflow.definition import InputDefinition
from rmhdag.workflow.loader import load_file
from tests.api.serving import served as served_api
from tests.engine.definitions import task
from tests.gateway.orders import count_orders
from tests.gateway.serving import Served, served_gateway
from tests.orchestrator.platform import Platform

FORM = {
    "dataset_id": "0085581",
    "resource_id": "DR0104298",
    "version_id": "1",
    "container_name": "bronze-rasters",
    "file_name": "Alps_DEM.tif",
    "client_id": "ddh",
}


@pytest.fixture
def client(gateway: Served, platform: Platform) -> httpx.Client:
    """The platform has our workflow for rasters with its inputs, without its handlers and its look at files."""
    register_inputs_of(platform, "raster_processing", item="{{ inputs.item_id }}")
    return gateway.client(name="ddh")


def register_inputs_of(platform: Platform, name: str, **outputs: str) -> None:
    shipped = load_file(shipped_folder() / f"{name}.yaml").definition
    platform.register(shipped.model_copy(update={"nodes": {"a": task()}, "outputs": outputs, "checks": ()}))


def test_a_form_is_an_order_and_the_same_form_the_same_order(client: httpx.Client, platform: Platform) -> None:
    accepted = client.post("/platform/submit", json=FORM)
    assert accepted.status_code == 202, accepted.text
    name = request_id("0085581", "DR0104298", "1")
    assert (accepted.json()["request_id"], accepted.json()["workflow_id"]) == (name, "raster_processing")
    again = client.post("/platform/submit", json=FORM)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert count_orders(platform) == 1
    platform.finish(platform.seat())
    status = client.get(f"/platform/status/{name}").json()
    assert (status["status"], status["version"]) == ("completed", "1")
    assert status["platform_refs"] == {"dataset_id": "0085581", "resource_id": "DR0104298", "version_id": "1"}
    assert status["result"] == {"item": "0085581-dr0104298-1"}


def test_every_option_of_a_raster_is_an_input_of_the_workflow(client: httpx.Client, platform: Platform) -> None:
    types = get_args(RasterType)
    for number, name in enumerate(types):
        options = {"raster_type": name, "crs": "EPSG:32632", "output_tier": "archive", "collection_id": "alps"}
        form = {**FORM, "resource_id": f"r{number}", "processing_options": options}
        answer = client.post("/platform/submit", json=form)
        assert answer.status_code == 202, (name, answer.text)
    rows = platform.conn.execute(
        "SELECT DISTINCT payload->'input_params'->>'raster_type', payload->'input_params'->>'resampling'"
        " FROM dag_api_requests WHERE payload->'input_params'->>'crs' = 'EPSG:32632'"
    ).fetchall()
    assert {row[0] for row in rows} == {None, *types} - {"auto"}
    assert {("categorical", "mode"), ("dem", "average"), ("rgb", "cubic"), (None, None)} <= set(rows)


def test_two_clients_may_send_the_same_form(client: httpx.Client, gateway: Served, platform: Platform) -> None:
    """Both forms have the same id, and each client has its own order with it."""
    name = request_id("0085581", "DR0104298", "1")
    for one in (client, gateway.client(name="other")):
        accepted = one.post("/platform/submit", json=FORM)
        assert (accepted.status_code, accepted.json()["request_id"]) == (202, name)
        assert "idempotency-replayed" not in accepted.headers
    assert count_orders(platform) == 2


def test_what_the_workflow_refuses_is_named_by_its_place_in_the_form(client: httpx.Client, platform: Platform) -> None:
    shipped = load_file(shipped_folder() / "raster_processing.yaml").definition
    names = {**shipped.inputs, "blob_name": InputDefinition.model_validate({"type": "string", "maxLength": 3})}
    platform.register(shipped.model_copy(update={"version": 2, "inputs": names, "nodes": {"a": task()}, "checks": ()}))
    answer = client.post("/platform/submit", json=FORM)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/file_name"]


def test_a_new_version_is_the_next_revision_of_the_same_data(client: httpx.Client, platform: Platform) -> None:
    for version in ("1", "2"):
        assert client.post("/platform/submit", json={**FORM, "version_id": version}).status_code == 202
        platform.finish(platform.seat())
    status = client.get(f"/platform/status/{request_id('0085581', 'DR0104298', '2')}").json()
    assert [(line["number"], line["version"], line["is_served"]) for line in status["versions"]] == [
        (2, "2", True),
        (1, "1", False),
    ]
    moved = client.post("/platform/submit", json={**FORM, "version_id": "3", "previous_version_id": "1"})
    assert (moved.status_code, moved.json()["code"]) == (409, "previous_version_moved")


def test_all_that_is_wrong_is_said_at_once(client: httpx.Client, platform: Platform) -> None:
    wrong = {**FORM, "resource_id": "/", "file_name": "roads.shp", "colour": "red"}
    answer = client.post("/platform/submit", json=wrong)
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/resource_id", "/file_name", "/colour"}
    for operation in ("UPDATE", "DELETE"):
        assert client.post("/platform/submit", json={**FORM, "operation": operation}).status_code == 501
    assert count_orders(platform) == 0


def test_a_dry_run_orders_nothing(client: httpx.Client, platform: Platform) -> None:
    answer = client.post("/platform/submit", params={"dry_run": "true"}, json=FORM)
    assert answer.status_code == 200, answer.text
    assert answer.json()["dry_run"] is True
    assert count_orders(platform) == 0


def test_every_option_of_a_vector_is_an_input_of_the_workflow(client: httpx.Client, platform: Platform) -> None:
    register_inputs_of(platform, "vector_etl")
    values = {
        "table_name": "Wells of 2026",
        "lat_column": "y",
        "lon_column": "x",
        "layer_name": "wells",
        "wkt_column": "g",
    }
    values |= {"temporal_property": "drilled", "split_column": "kind", "collection_id": "wells", "target": "geoparquet"}
    options = {**values, "layer_names": ["a", "b"], "indexes": ["depth"], "create_stac": True}
    assert options.keys() | Options.model_fields.keys() == VectorOptions.model_fields.keys()
    for number, left_out in enumerate(({"wkt_column", "layer_names"}, {"lat_column", "lon_column", "layer_name"})):
        chosen = {name: value for name, value in options.items() if name not in left_out}
        form = {**FORM, "resource_id": f"v{number}", "file_name": "wells.gpkg", "processing_options": chosen}
        answer = client.post("/platform/submit", json=form)
        assert answer.status_code == 202, answer.text
        assert answer.json()["workflow_id"] == "vector_etl"
        row = platform.conn.execute(
            "SELECT payload->'input_params' FROM dag_api_requests WHERE payload->'platform_refs'->>'resource_id' = %s",
            [f"v{number}"],
        ).fetchone()
        assert row is not None
        assert chosen.keys() <= row[0].keys()


def test_what_the_platform_cannot_process_is_not_offered(client: httpx.Client, platform: Platform) -> None:
    """There is no workflow for collections of rasters: said in the words of the form, and as 501."""
    form = {**FORM, "file_name": ["a.tif", "b.tif"]}
    answer = client.post("/platform/submit", json=form)
    assert (answer.status_code, answer.json()["code"]) == (501, "data_type_not_offered"), answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/file_name"]
    assert answer.json()["detail"] == "collections of several rasters are not processed here"
    assert answer.json()["remedy"] == "Order each file by itself, as a resource of its own."
    plan = client.post("/platform/submit", params={"dry_run": "true"}, json=form).json()["plan"]
    assert plan["valid"] is False
    assert [(line["code"], line["pointer"]) for line in plan["problems"]] == [("data_type_not_offered", "/file_name")]
    assert count_orders(platform) == 0


def test_a_platform_without_postgis_says_what_a_form_can_ask_for(migrated_database: str, platform: Platform) -> None:
    platform.register(load_file(shipped_folder() / "vector_etl.yaml").definition)
    form = {**FORM, "file_name": "wells.gpkg"}
    with (
        served_api(migrated_database, has_postgis=False) as api,
        served_gateway(migrated_database, api.url) as gateway,
    ):
        client = gateway.client(name="ddh")
        plan = client.post("/platform/submit", params={"dry_run": "true"}, json=form).json()["plan"]
        refusal = client.post("/platform/submit", json=form)
        assert refusal.status_code == 422
        for fault in (*plan["problems"], *refusal.json()["errors"]):
            assert fault["pointer"] == "/processing_options/target"
            assert "`target: geoparquet` writes files" in fault["detail"]
            # How to install it is for the operator.
            assert "rmhdag" not in fault["detail"].lower()
        assert count_orders(platform) == 0
        files = {**form, "processing_options": {"target": "geoparquet"}}
        assert client.post("/platform/submit", json=files).status_code == 202

"""The registry of platforms over HTTP: who may change it, for whom, and what orders then do."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere
from tests.api.test_assets import ORDER, get, order, problem
from tests.orchestrator.assets import REFS, raster_workflow
from tests.orchestrator.platform import Platform

GEONODE: dict[str, Any] = {"identity_refs": ["dataset"], "optional_refs": ["layer"]}


@pytest.fixture
def http(api: ServedHere, platform: Platform) -> httpx.Client:
    platform.register(raster_workflow())
    return api.client(Scope.READ, Scope.SUBMIT, Scope.OPERATE, name="ada")


def put(http: httpx.Client, name: str, **body: Any) -> dict[str, Any]:
    answer = http.put(f"/api/v1/platforms/{name}", json=body)
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def test_the_shipped_platforms_are_listed(http: httpx.Client) -> None:
    lines = get(http, "platforms")["platforms"]
    assert [line["platform_id"] for line in lines] == ["arcgis", "ddh"]
    ddh = get(http, "platforms/ddh")
    assert (ddh["identity_refs"], ddh["version_ref"]) == (["dataset_id", "resource_id"], "version_id")
    assert (ddh["namespace"], ddh["created_by"], ddh["active"]) == ("default", "settings", True)
    assert problem(http.get("/api/v1/platforms/geonode"), 404)["code"] == "not_found"


def test_a_platform_from_its_registration_to_its_end(api: ServedHere, http: httpx.Client) -> None:
    operator = api.client(Scope.READ, Scope.PLATFORM, name="eva")
    view = put(operator, "geonode", **GEONODE, review="four_eyes")
    assert (view["review"], view["updated_by"]) == ("four_eyes", "eva")
    # The API that was changed knows it at once.
    asked = {"platform_id": "geonode", "platform_refs": {"dataset": "d"}}
    assert order(http, **asked)["revision"] == 1
    taken = operator.put("/api/v1/platforms/geonode", json={"identity_refs": ["package"]})
    assert problem(taken, 409)["code"] == "platform_in_use"
    ended = operator.post("/api/v1/platforms/geonode/deactivate")
    assert (ended.status_code, ended.json()["active"]) == (200, False)
    refused = problem(http.post("/api/v1/submit", json=ORDER | asked), 422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid_references", "/platform_id")
    assert "is inactive and takes no orders" in refused["detail"]
    assert problem(operator.post("/api/v1/platforms/nobodys/deactivate"), 404)["code"] == "not_found"


def test_administrators_define_platforms_of_their_own_namespace(api: ServedHere) -> None:
    north = api.client(Scope.ADMIN, namespace="north", name="nora")
    assert put(north, "geonode", **GEONODE)["namespace"] == "north"
    south = api.client(Scope.ADMIN, namespace="south")
    assert south.get("/api/v1/platforms/geonode").status_code == 404
    # That of `default` counts for others too.
    administrator = api.client(Scope.ADMIN)
    assert problem(administrator.put("/api/v1/platforms/geonode", json=GEONODE), 403)["code"] == "scope_missing"
    operator = api.client(Scope.PLATFORM, Scope.READ, namespace="north")
    assert put(operator, "ckan", identity_refs=["package"])["namespace"] == "default"
    assert south.get("/api/v1/platforms/ckan").status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/identity_refs"),
        ({"identity_refs": []}, "/identity_refs"),
        ({"identity_refs": ["a"], "optional_refs": ["a"]}, ""),
        ({"identity_refs": ["A b"]}, "/identity_refs/0"),
        ({"identity_refs": ["a"], "review": "twice"}, "/review"),
        ({"identity_refs": ["a"], "active": "yes"}, "/active"),
        ({"identity_refs": ["a"], "colour": "red"}, "/colour"),
    ],
)
def test_a_definition_that_is_wrong_is_refused_with_its_place(
    api: ServedHere, body: dict[str, Any], pointer: str
) -> None:
    operator = api.client(Scope.PLATFORM)
    refused = problem(operator.put("/api/v1/platforms/geonode", json=body), 422)
    assert refused["errors"][0]["pointer"] == pointer


def test_versions_of_an_asset_are_shown_and_found(http: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    for label in ("2024", "2025"):
        made = order(http, platform_refs={**REFS, "version_id": label})
        platform.finish(seat)
    asset = get(http, f"assets/{made['asset_id']}")
    assert asset["latest_version"] == "2025"
    lines = [(line["version_label"], line["revision"], line["served"]) for line in asset["versions"]]
    assert lines == [("2025", 2, True), ("2024", 1, False)]

    def ids(*refs: str, **query: Any) -> list[str]:
        return [line["asset_id"] for line in get(http, "assets", ref=list(refs), **query)["assets"]]

    assert ids("version_id=2024") == ids("version_id=2025", "resource_id=r1") == [made["asset_id"]]
    assert ids("version_id=2024", platform_id="ddh") == [made["asset_id"]]
    assert ids("version_id=2023") == ids("version_id=2024", "resource_id=r2") == []

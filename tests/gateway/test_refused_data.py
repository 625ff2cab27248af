"""Orders that the checks of a workflow refuse: partners are told as much as by the status of a failed order."""

from __future__ import annotations

from rmhdag.workflow import load
from tests.gateway.orders import REFS
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform

CHECKED = """
workflow_id: checked
produces: raster
inputs:
  file: {type: string, required: true}
  crs: {type: string, required: true}
checks:
  - {type: extension, path: "{{ inputs.file }}", allowed: [.tif]}
  - {type: crs, value: "{{ inputs.crs }}"}
nodes:
  a: {handler: echo, queue: light-tasks}
"""
ORDER = {"workflow_id": "checked", "platform_id": "ddh", "platform_refs": REFS}
INVALID_FORMAT = {
    "code": "INVALID_FORMAT",
    "category": "data_incompatible",
    "remediation": "Convert the file to an accepted format.",
    "user_fixable": True,
}


def test_a_refusal_of_data_says_what_it_is_and_what_to_do(gateway: Served, platform: Platform) -> None:
    platform.register(load(CHECKED).definition)
    client = gateway.client()
    body = {**ORDER, "input_params": {"file": "scene.png", "crs": "wgs84"}}
    refused = client.post("/platform/submit", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "checks_failed")
    place, other = refused.json()["errors"]
    assert place.items() >= INVALID_FORMAT.items()
    assert place["pointer"] == "/input_params/file"
    assert (other["pointer"], other["code"]) == ("/input_params/crs", "INVALID_PARAMETER")
    plan = client.post("/platform/submit", json=body | {"dry_run": True}).json()["plan"]
    assert [problem["error"]["code"] for problem in plan["problems"]] == ["INVALID_FORMAT", "INVALID_PARAMETER"]
    assert plan["problems"][0]["error"] == INVALID_FORMAT


def test_other_refusals_have_no_code_of_data(gateway: Served, platform: Platform) -> None:
    platform.register(load(CHECKED).definition)
    client = gateway.client()
    body = {**ORDER, "input_params": {"file": "scene.tif"}}
    (place,) = client.post("/platform/submit", json=body).json()["errors"]
    assert place.keys() == {"pointer", "detail"}
    (problem,) = client.post("/platform/submit", json=body | {"dry_run": True}).json()["plan"]["problems"]
    assert problem["error"] is None

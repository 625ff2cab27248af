"""A platform that runs: orchestrator and worker as processes, the API before them, and workflows to try it with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from rmhdag.models.scopes import Scope
from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.serving import Served
from tests.faults.processes import Cluster
from tests.store.waiting import wait_until

T = TypeVar("T")

FLAKY = """\
workflow_id: flaky
name: Fails when told to
inputs:
  fails: {type: boolean, default: true}
  numbers: {type: array, default: [1, 2, 3]}
defaults: {queue: light, retry: {max_attempts: 1}}
nodes:
  split:
    type: fan_out
    source: "{{ inputs.numbers }}"
    task: {handler: echo, params: {value: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, next: judge}
  judge:
    type: conditional
    condition: "{{ inputs.fails }}"
    on_true: broken
    on_false: fine
  broken: {handler: fail, params: {message: no luck today}, next: END}
  fine: {handler: hello_world, next: END}
"""
RELEASE = """\
workflow_id: release
name: Waits for somebody
nodes:
  ask: {type: approval, message: "Release {{ 1 + 1 }} maps?", approvers: [data-stewards, ada], next: last}
  last: {handler: echo, queue: light, params: {done: true}}
"""
SLOW = """\
workflow_id: slow
name: Sleeps
inputs: {seconds: {type: number, default: 600}}
nodes:
  nap: {handler: sleep, queue: light, params: {seconds: "{{ inputs.seconds }}"}, next: last}
  last: {handler: echo, queue: light}
"""
PATIENT = """\
workflow_id: patient
name: Waits long before it tries again
nodes:
  broken:
    handler: fail
    queue: light
    retry: {max_attempts: 2, initial_delay_seconds: 3600, max_delay_seconds: 3600, jitter: 0}
"""
LONELY = """\
workflow_id: lonely
name: Nobody serves its queue
nodes:
  only: {handler: echo, queue: heavy}
"""

LARGE = """\
workflow_id: large
name: Makes more than stands inline
inputs: {text: {type: string}, others: {type: array, default: []}}
defaults: {queue: light}
nodes:
  first: {handler: echo, params: {text: "{{ inputs.text }}"}, next: split}
  split:
    type: fan_out
    source: "{{ inputs.others }}"
    task: {handler: echo, params: {text: "{{ item }}"}}
    next: gather
  gather: {type: fan_in}
outputs: {first: "{{ nodes.first.output }}", gathered: "{{ nodes.gather.output }}"}
"""


class Running:
    """`client` may do everything but administer."""

    def __init__(self, api: Served, cluster: Cluster) -> None:
        self.api = api
        self.cluster = cluster
        self.client = api.client(Scope.READ, Scope.SUBMIT, Scope.OPERATE, name="ada")
        for text in (FLAKY, RELEASE, SLOW, PATIENT, LONELY, LARGE):
            register(api.dsn, load(text, queues={"light", "heavy"}).definition)

    def submit(self, workflow_id: str, **params: Any) -> str:
        answer = self.client.post("/api/v1/jobs", json={"workflow_id": workflow_id, "input_params": params})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/{path}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.client.post(f"/api/v1/{path}", json=body)

    def wait(self, observe: Callable[[], T | None]) -> T:
        try:
            return wait_until(observe, 45)
        except AssertionError:
            raise AssertionError(f"not observed\n{self.cluster.logs()}") from None

    def end_of(self, job_id: str) -> dict[str, Any]:
        ended = ("completed", "failed", "cancelled")
        return self.wait(lambda: ((job := self.get(f"jobs/{job_id}"))["status"] in ended and job) or None)

    def wait_for_node(self, job_id: str, node_id: str, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            nodes = self.get(f"jobs/{job_id}/nodes", children=True, limit=1000)["nodes"]
            return next((one for one in nodes if (one["node_id"], one["status"]) == (node_id, status)), None)

        return self.wait(look)


def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="rmhdag-api-"))

"""What one namespace may have of the platform: refused above it with figures and a remedy, and nobody else notices."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from rmhdag.models.quotas import QUOTAS, Quotas, read_quotas
from rmhdag.models.scopes import Scope
from rmhdag.orchestrator.duties import namespace_usage, running_quotas
from rmhdag.store.identity import new_id
from rmhdag.views.quota_metrics import MOST_NAMESPACES
from rmhdag.workflow.definition import WorkflowDefinition
from tests.api.promlint import lint
from tests.api.registering import register
from tests.api.serving import ServedHere, served
from tests.orchestrator.platform import Platform

SMALL = WorkflowDefinition.model_validate(
    {
        "workflow_id": "small",
        "name": "Small",
        "inputs": {"text": {"type": "string", "default": ""}},
        "nodes": {"one": {"type": "task", "task": {"handler": "echo", "queue": "light"}}},
    }
)
YAML = "workflow_id: {name}\nname: A\nnodes:\n  a:\n    handler: echo\n    queue: light\n"
TIGHT = Quotas(
    open_jobs=2,
    stored_bytes=10_000,
    upload_bytes=1_500,
    listeners=2,
    workflows=2,
    handlers=2,
    keys=4,
    priority=5,
    handler_trials=1,
)


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    for namespace in ("alpha", "beta"):
        register(migrated_database, SMALL, namespace)
    with served(migrated_database, quotas=TIGHT, development=True, trial_grace_seconds=0.5) as running:
        yield running


def refused(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["code"]) == (status, "quota_exceeded"), body
    assert body["quota"]["name"] == name
    assert body["remedy"]
    return dict(body["quota"])


def submit(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/api/v1/jobs", json={"workflow_id": "small", **more})


def test_open_jobs(api: ServedHere) -> None:
    alpha, beta = (api.client(Scope.SUBMIT, Scope.OPERATE, namespace=name) for name in ("alpha", "beta"))
    assert [submit(alpha).status_code for _ in range(2)] == [201, 201]
    assert refused(submit(alpha), 409, "open_jobs") == {"name": "open_jobs", "limit": 2, "used": 2}
    refused(alpha.post("/api/v1/jobs/batch", json={"jobs": [{"workflow_id": "small"}]}), 409, "open_jobs")
    assert submit(beta).status_code == 201


def test_jobs_that_ended_make_room_at_once(api: ServedHere, platform: Platform) -> None:
    alpha = api.client(Scope.SUBMIT, namespace="alpha")
    assert [submit(alpha).status_code for _ in range(2)] == [201, 201]
    platform.finish(platform.seat())
    # What was counted a moment ago may refuse once more, and no longer.
    assert 201 in (submit(alpha).status_code for _ in range(1_000))


def test_priority(api: ServedHere) -> None:
    alpha = api.client(Scope.SUBMIT, namespace="alpha")
    refused(submit(alpha, priority=6), 403, "priority")
    assert submit(alpha, priority=5).status_code == 201


def test_stored_bytes(api: ServedHere, platform: Platform) -> None:
    alpha = api.client(Scope.SUBMIT, namespace="alpha")
    assert submit(alpha, input_params={"text": "x" * 9_000}).status_code == 201
    refused(submit(alpha, input_params={"text": "x" * 2_000}), 413, "stored_bytes")
    seat = platform.seat()
    running_quotas.run_once(seat.context)
    namespace_usage.run_once(seat.context)
    used = {line["name"]: line["used"] for line in quotas_of(api, "alpha")}
    assert used["open_jobs"] == 1
    assert used["stored_bytes"] > 0


def test_unfinished_uploads(api: ServedHere, platform: Platform) -> None:
    alpha, beta = (api.client(Scope.WORKER, namespace=name) for name in ("alpha", "beta"))

    def send(client: httpx.Client, text: bytes, chunk: int = 0) -> httpx.Response:
        digest = hashlib.sha256(text).hexdigest()
        headers = {"Content-Type": "application/octet-stream"}
        return client.put(f"/api/v1/payloads/{digest}/chunks/{chunk}", content=b"x" * 1_000, headers=headers)

    assert send(alpha, b"one").status_code == 204
    assert send(alpha, b"one").status_code == 204, "sent again, it takes the place of the first"
    assert refused(send(alpha, b"two"), 413, "upload_bytes")["used"] == 1_000
    assert send(beta, b"two").status_code == 204
    platform.conn.execute("UPDATE dag_payloads SET created_at = clock_timestamp() - interval '61 minutes'")
    assert send(alpha, b"two").status_code == 204, "what was begun an hour ago was given up"


def test_listeners(api: ServedHere) -> None:
    beta = api.client(Scope.READ, namespace="beta")
    with ExitStack() as open_streams:
        for number in range(2):
            client = api.client(Scope.READ, namespace="alpha", name=f"key{number}")
            answer = open_streams.enter_context(client.stream("GET", "/api/v1/events/stream"))
            assert answer.status_code == 200
        third = api.client(Scope.READ, namespace="alpha", name="another").get("/api/v1/events/stream")
        refused(third, 429, "listeners")
        assert third.headers["Retry-After"]
        assert open_streams.enter_context(beta.stream("GET", "/api/v1/events/stream")).status_code == 200


def test_workflows(api: ServedHere) -> None:
    alpha = api.client(Scope.OPERATE, namespace="alpha")

    def send(name: str) -> httpx.Response:
        headers = {"Content-Type": "application/yaml"}
        return alpha.post("/api/v1/workflows", content=YAML.format(name=name), headers=headers)

    assert send("second").status_code == 201
    refused(send("third"), 403, "workflows")
    assert send("second").status_code == 200


def test_handlers(api: ServedHere) -> None:
    alpha = api.client(Scope.WORKER, namespace="alpha")

    def come(count: int) -> httpx.Response:
        handlers = [{"handler": f"alpha.h{number}", "queue": "light"} for number in range(count)]
        body = {"worker_id": new_id(), "host": "h", "process_id": 1, "version": "1", "slots": 1, "queues": ["light"]}
        return alpha.post("/api/v1/workers/register", json={**body, "handlers": handlers})

    assert come(2).status_code == 200
    refused(come(3), 403, "handlers")
    assert come(2).status_code == 200


def test_keys(api: ServedHere) -> None:
    alpha = api.client(Scope.ADMIN, namespace="alpha")
    made = [alpha.post("/api/v1/keys", json={"name": "k", "scopes": ["read"]}) for _ in range(4)]
    assert [answer.status_code for answer in made] == [201, 201, 201, 403]
    refused(made[-1], 403, "keys")


def test_requests_of_a_namespace_have_one_rate_whatever_keys_it_has(migrated_database: str) -> None:
    with served(migrated_database, quotas=Quotas(requests_per_second=10)) as api:
        clients = [api.client(Scope.READ, namespace="alpha", name=f"key{number}") for number in range(5)]
        answers = [clients[number % 5].get("/api/v1/me") for number in range(100)]
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {200, 429}
        # Twice a second's worth at once, and what came in while they were sent.
        assert codes[:20] == [200] * 20
        last = next(answer for answer in answers if answer.status_code == 429)
        refused(last, 429, "requests_per_second")
        assert int(last.headers["Retry-After"]) >= 1
        assert api.client(Scope.READ, namespace="beta").get("/api/v1/me").status_code == 200


def test_trials_have_a_few_places_and_nobody_has_all(api: ServedHere, platform: Platform) -> None:
    """Forty trials of one key held all threads, and authentication of others took eleven seconds."""
    alpha = api.client(Scope.OPERATE, namespace="alpha")
    body = {"handler": "echo", "queue": "light", "timeout_seconds": 1}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: alpha.post("/api/v1/test/handler", json=body), range(8)))
    codes = sorted(answer.status_code for answer in answers)
    assert set(codes) == {200, 429}
    refused(next(answer for answer in answers if answer.status_code == 429), 429, "handler_trials")


def test_what_a_namespace_uses_is_shown(api: ServedHere) -> None:
    submit(api.client(Scope.SUBMIT, namespace="alpha"))
    lines = {line["name"]: line for line in quotas_of(api, "alpha")}
    assert list(lines) == list(QUOTAS)
    assert (lines["open_jobs"]["used"], lines["open_jobs"]["limit"], lines["open_jobs"]["is_own"]) == (1, 2, False)


def test_health_names_quotas_that_are_nearly_used_up(api: ServedHere) -> None:
    reader = api.client(Scope.READ, namespace="alpha")

    def check() -> dict[str, Any]:
        checks = reader.get("/api/v1/health").json()["components"]["system"]["checks"]
        return next(dict(one) for one in checks if one["name"] == "quotas")

    assert check()["status"] == "HEALTHY"
    submitter = api.client(Scope.SUBMIT, namespace="alpha")
    assert [submit(submitter).status_code for _ in range(2)] == [201, 201]
    assert (check()["status"], check()["value"]) == ("DEGRADED", "open_jobs 2 of 2")


def test_metrics_show_a_tenant_its_own_quotas_and_the_operator_all(api: ServedHere, platform: Platform) -> None:
    for name in ("alpha", "beta"):
        assert submit(api.client(Scope.SUBMIT, namespace=name)).status_code == 201
    seat = platform.seat()
    running_quotas.run_once(seat.context)
    namespace_usage.run_once(seat.context)
    tenant = api.client(Scope.ADMIN, namespace="alpha").get("/metrics").text
    assert 'rmhdag_quota_used{namespace="alpha",quota="open_jobs"} 1.0' in tenant
    assert 'rmhdag_quota_limit{namespace="alpha",quota="open_jobs"} 2.0' in tenant
    assert 'rmhdag_quota_limit{namespace="alpha",quota="requests_per_second"} 500.0' in tenant
    assert 'rmhdag_quota_used{namespace="alpha",quota="requests_per_second"}' not in tenant, "nobody counts it"
    assert "beta" not in tenant
    operator = api.client(Scope.READ, Scope.PLATFORM, namespace="alpha").get("/metrics").text
    assert 'rmhdag_quota_used{namespace="beta",quota="open_jobs"} 1.0' in operator
    assert 'rmhdag_quota_used{namespace="beta",quota="running_tasks"} 0.0' in operator
    assert lint(operator) == []


def test_metrics_name_no_more_namespaces_than_some(api: ServedHere, platform: Platform) -> None:
    platform.conn.execute(
        "INSERT INTO dag_namespaces (namespace, used)"
        " SELECT 'n' || n, jsonb_build_object('open_jobs', n) FROM generate_series(1, 200) AS n"
    )
    text = api.client(Scope.READ, Scope.PLATFORM, namespace="alpha").get("/metrics").text
    named = set(re.findall(r'rmhdag_quota_limit\{namespace="(\w+)"', text))
    assert len(named) == MOST_NAMESPACES
    assert {"alpha", "n200", "n152"} <= named, "its own, and those that are nearest to a limit"


def test_only_the_operator_changes_quotas(api: ServedHere) -> None:
    own = api.client(Scope.ADMIN, namespace="alpha").post("/api/v1/quotas/alpha", json={"quotas": {"open_jobs": 9}})
    assert own.status_code == 403
    assert api.client(Scope.ADMIN).post("/api/v1/quotas/alpha", json={"quotas": {"open_jobs": 9}}).status_code == 403
    operator = api.client(Scope.PLATFORM)
    assert operator.post("/api/v1/quotas/alpha", json={"quotas": {"open_jobs": 3}}).status_code == 200
    lines = {line["name"]: line for line in quotas_of(api, "alpha")}
    assert (lines["open_jobs"]["limit"], lines["open_jobs"]["is_own"]) == (3, True)
    assert operator.post("/api/v1/quotas/alpha", json={"quotas": {"open_jobs": None}}).status_code == 200
    assert {line["name"]: line["is_own"] for line in quotas_of(api, "alpha")}["open_jobs"] is False
    for wrong in ({"running_share": 101}, {"jobs": 1}, {"priority": -1}, {}):
        assert operator.post("/api/v1/quotas/alpha", json={"quotas": wrong}).status_code == 422


def test_the_setting_is_read_and_wrong_ones_are_refused() -> None:
    assert read_quotas("open_jobs=10, running_share=50,") == {"open_jobs": 10, "running_share": 50}
    for wrong in ("open_jobs", "open_jobs=ten", "jobs=1", "running_share=0", "priority=11"):
        with pytest.raises(ValueError, match=r"quota|running_share|priority"):
            read_quotas(wrong)


def quotas_of(api: ServedHere, namespace: str) -> list[dict[str, Any]]:
    answer = api.client(Scope.READ, namespace=namespace).get("/api/v1/quotas")
    assert answer.status_code == 200, answer.text
    lines: list[dict[str, Any]] = answer.json()["quotas"]
    return lines

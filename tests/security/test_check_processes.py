"""A caller whose workflow takes long to check waits alone: the API answers others, and nothing becomes a 5xx."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import orjson
import pytest

from rmhdag.api import check_pool, input_checks
from rmhdag.api.check_pool import MOST_WAITING, CheckPool, CheckTooExpensive
from rmhdag.api.check_process import INPUTS, WORKFLOW
from rmhdag.api.problems import Problem
from rmhdag.api.routes.workflows import cpu_seconds, left_for_check
from rmhdag.models.scopes import Scope
from rmhdag.workflow.definition import InputDefinition
from tests.api.serving import Served, ServedHere, served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

HOSTILE = "(?:a|b)*a(?:[ab]{100}){50}c"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a check that is too expensive would be refused as late (429) before its budget is used up."""
    monkeypatch.setattr(check_pool, "SLOWNESS_SECONDS", 60.0)


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database) as found:
        yield found


@pytest.fixture
def pool() -> Iterator[CheckPool]:
    made = CheckPool(2)
    yield made
    made.close()


def written(**more: Any) -> dict[str, Any]:
    return {"workflow_id": "one", "nodes": {"a": {"handler": "echo", "queue": "light"}}, **more}


def around(**more: Any) -> bytes:
    told = {"handlers": [], "queues": ["light"], "env_names": [], "fallback_queue": None, "is_stored": False}
    return orjson.dumps(told | more)


def large() -> bytes:
    """What takes seconds to check, with no mistake in it."""
    nodes = {f"n{i}": {"handler": "echo", "queue": "light", "params": {"y": i}} for i in range(10_000)}
    return orjson.dumps({"workflow_id": "large", "nodes": nodes})


def test_what_reading_took_is_taken_from_the_check() -> None:
    seconds = [left_for_check(size) for size in (0, 1_000, 3_000_000, 8_000_000)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == check_pool.CPU_SECONDS
    assert seconds[2] < check_pool.CPU_SECONDS - 0.1
    assert seconds[-1] >= 0.2


def test_nobody_waits_for_a_successor_while_another_process_is_ready(pool: CheckPool) -> None:
    pool.warm()
    ready = list(pool._idle)
    with pytest.raises(CheckTooExpensive):
        pool.check("alpha", WORKFLOW, around(), b"", large(), cpu_seconds=0.1)
    # The last one is given out next.
    assert pool._idle[-1] is ready[0]
    assert pool._idle[0] not in ready


def test_a_process_starts_no_more_urgently_than_it_checks(pool: CheckPool) -> None:
    """Else the start of a successor would take the processor from the check beside it."""
    pool.warm()
    urgency = {os.getpriority(os.PRIO_PROCESS, one._process.pid) for one in pool._idle}
    pool.check("alpha", INPUTS, b"[]", b"[]", b"[]")
    assert urgency == {os.getpriority(os.PRIO_PROCESS, one._process.pid) for one in pool._idle}


def test_hostile_pattern_is_refused_with_its_place(api: Served) -> None:
    body = written(inputs={"x": {"type": "string", "pattern": HOSTILE, "default": "abba" * 100_000}})
    answer = api.client(Scope.READ).post("/api/v1/workflows/validate", json=body)
    assert answer.status_code == 200
    assert [(one["code"], one["pointer"]) for one in answer.json()["problems"]] == [
        ("bad-pattern", "/inputs/x/pattern")
    ]


def test_expensive_workflow_is_ended_and_the_next_one_checked(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other processes of a busy machine would take all of its time.
    monkeypatch.setattr(check_pool, "NICENESS", 0)
    client = api.client(Scope.OPERATE, Scope.READ)
    client.timeout = httpx.Timeout(90)
    json = {"Content-Type": "application/json"}
    answer = client.post("/api/v1/workflows", content=large(), headers=json)
    assert (answer.status_code, answer.json()["code"]) == (422, "check_too_expensive")
    assert "Prefer: wait" in answer.json()["remedy"]
    assert client.post("/api/v1/workflows/validate", json=written()).json()["valid"]
    patient = client.post("/api/v1/workflows", content=large(), headers={**json, "Prefer": "wait=10"})
    assert (patient.status_code, patient.json()["node_count"]) == (201, 10_000)


def test_how_long_a_caller_waits() -> None:
    short, most = check_pool.CPU_SECONDS, check_pool.MOST_CPU_SECONDS
    given = [None, "", "wait=0", "wait=3", "respond-async, wait=5", "wait=9999", "wait=x", "nowait=3", "wait=99999"]
    assert [cpu_seconds(one) for one in given] == [short, short, short, 3.0, 5.0, most, short, short, short]


def test_process_is_killed_in_code_that_holds_the_interpreter(pool: CheckPool) -> None:
    with pytest.raises(CheckTooExpensive):
        pool.check("a", WORKFLOW, around(), b"", large(), cpu_seconds=0.05)
    assert pool.check("a", WORKFLOW, around(), b"", orjson.dumps(written()))["faults"] == []


def test_one_namespace_never_has_all_processes(pool: CheckPool) -> None:
    """While one check of a namespace is under way, its next one waits, and another namespace's does not."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with pool._turn("greedy"):
            held.set()
            go_on.wait()

    with ThreadPoolExecutor() as threads:
        threads.submit(hold)
        assert held.wait(30)
        try:
            with pytest.raises(Problem) as refusal:
                pool.check("greedy", WORKFLOW, around(), b"", orjson.dumps(written()))
            assert (refusal.value.status_code, refusal.value.headers) == (429, {"Retry-After": "1"})
            assert pool.check("other", WORKFLOW, around(), b"", orjson.dumps(written()))["faults"] == []
        finally:
            go_on.set()


def test_few_calls_wait(pool: CheckPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond are refused at once: they would take the threads of others."""
    monkeypatch.setattr(check_pool, "PATIENCE_SECONDS", 60.0)
    with ThreadPoolExecutor(20) as threads, pool._turn("greedy"):
        calls = [
            threads.submit(pool.check, "greedy", WORKFLOW, around(), b"", orjson.dumps(written())) for _ in range(12)
        ]
        refused: list[Any] = []
        while len(refused) < 12 - MOST_WAITING:
            refused = [call for call in calls if call.done()]
        assert all(isinstance(call.exception(), Problem) for call in refused)
    assert sum(call.exception() is None for call in calls) == MOST_WAITING


def test_a_closed_pool_leaves_no_process() -> None:
    pool = CheckPool(2)
    pool.warm()
    processes = [checker._process for checker in pool._idle]
    pool.close()
    assert [process.returncode is not None for process in processes] == [True, True]


class TestParameters:
    @pytest.fixture
    def client(self, migrated_database: str, api: Served) -> Iterator[httpx.Client]:
        platform = Platform(migrated_database)
        inputs = {
            "names": InputDefinition(type="array", items={"type": "string", "pattern": "^[a-z]{1,20}_[0-9]{1,9}$"}),
            "word": InputDefinition(type="string", default="x"),
        }
        platform.register(workflow(a=task()).model_copy(update={"inputs": inputs}))
        yield api.client(Scope.SUBMIT, Scope.OPERATE, Scope.READ)
        platform.close()

    @staticmethod
    def asked(params: dict[str, Any]) -> dict[str, Any]:
        return {"workflow_id": workflow(a=task()).workflow_id, "input_params": params}

    def test_small_ones_need_no_process(self, client: httpx.Client, api: ServedHere) -> None:
        answer = client.post("/api/v1/jobs", json=self.asked({"names": ["a_1"]}))
        assert answer.status_code == 201
        assert api.checks._idle == []

    def test_large_ones_are_checked_elsewhere(self, client: httpx.Client, api: ServedHere) -> None:
        names = [f"name_{n}" for n in range(5_000)]
        answer = client.post("/api/v1/jobs", json=self.asked({"names": names}))
        assert (answer.status_code, answer.json()["input_params"]["word"]) == (201, "x")
        assert len(api.checks._idle) == 1
        names[4_000] = "NO"
        answer = client.post("/api/v1/jobs", json=self.asked({"names": names}))
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/input_params/names/4000")

    def test_batch_is_answered_item_by_item(self, client: httpx.Client) -> None:
        good, bad = [f"name_{n}" for n in range(3_000)], [f"name {n}" for n in range(3_000)]
        jobs = [self.asked({"names": names}) for names in (good, bad, ["a_1"], good)]
        told = client.post("/api/v1/jobs/batch", json={"jobs": jobs}).json()
        assert (told["created"], told["refused"]) == (3, 1)
        assert told["jobs"][1]["problem"]["errors"][0]["pointer"] == "/jobs/1/input_params/names/0"

    def test_expensive_patterns_are_a_refusal(self, client: httpx.Client) -> None:
        names = ["a" * 9_999 + "!"] * 700
        answer = client.post("/api/v1/jobs", json=self.asked({"names": names}))
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameters")

    def test_orders_and_reruns_too(self, client: httpx.Client, api: ServedHere) -> None:
        names = [f"name_{n}" for n in range(5_000)]
        answer = client.post("/api/v1/submit", json=self.asked({"names": names}))
        assert answer.status_code == 201
        job_id = answer.json()["job_id"]
        assert client.post(f"/api/v1/jobs/{job_id}/rerun", json={"input_params": {"names": names}}).status_code == 409

    def test_no_connection_waits_for_a_check(self, migrated_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is one connection, and during the check somebody else gets it."""
        got: list[Any] = []
        run = CheckPool.check
        with served(migrated_database, connections=1) as api:

            def note(pool: CheckPool, *given: Any, **more: Any) -> Any:
                with api.pool.connection(timeout=20) as conn:
                    got.append(conn.execute("SELECT 1").fetchone())
                return run(pool, *given, **more)

            monkeypatch.setattr(CheckPool, "check", note)
            client = api.client(Scope.SUBMIT, Scope.READ)
            platform = Platform(migrated_database)
            inputs = {"names": InputDefinition(type="array")}
            platform.register(workflow(a=task()).model_copy(update={"inputs": inputs}))
            platform.close()
            assert client.post("/api/v1/jobs", json=self.asked({"names": ["a"] * 9_000})).status_code == 201
            assert client.post("/api/v1/workflows/validate", json=written()).status_code == 200
        assert got == [(1,), (1,)]


def test_the_bound_of_small_checks() -> None:
    """What is checked in the API itself is small in every respect that costs time."""
    assert input_checks.SMALL_PARAMS_BYTES + input_checks.SMALL_DECLARATION_BYTES <= 80 * 1024
    assert input_checks.SMALL_PATTERN_WORK * 30e-9 < 0.01


def test_checking_many_parameters_is_ended_too(pool: CheckPool) -> None:
    declared = orjson.dumps([{"x": {"type": "array", "items": {"type": "string"}}}])
    params = orjson.dumps([{"x": ["text"] * 500_000}])
    with pytest.raises(CheckTooExpensive):
        pool.check("a", INPUTS, orjson.dumps([[0, False]]), declared, params, cpu_seconds=0.01)


def test_a_key_has_a_rate_of_requests(migrated_database: str) -> None:
    with served(migrated_database, requests_per_second=2.0) as slow:
        eager, other = slow.client(Scope.READ), slow.client(Scope.READ)
        answers = [eager.get("/api/v1/jobs") for _ in range(8)]
        refused = next(one for one in answers if one.status_code != 200)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert int(refused.headers["Retry-After"]) >= 1
        assert other.get("/api/v1/jobs").status_code == 200
        assert eager.get("/livez").status_code == 200

"""Queues, processes, dead letters and the database's schema, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rmhdag
from rmhdag import Client
from rmhdag.models.chaos_results import read_results
from rmhdag.models.scopes import Scope
from rmhdag.store.workers import register_handlers, register_worker
from rmhdag.views import processes
from rmhdag.views.queue_rates import COUNT_SECONDS, QueueRates
from tests.api.serving import Served, served
from tests.api.test_foundation import problem
from tests.engine.definitions import task, workflow
from tests.faults.processes import Cluster
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_dead_letters import give_up

MANIFEST = {
    "handler": "mine.clip",
    "aliases": ["mine_clip"],
    "queue": "light",
    "version": "3",
    "description": "Clips",
    "params_schema": {"type": "object"},
    "output_schema": {"type": "object", "properties": {"area": {"type": "number"}}},
}


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


def test_queues_tell_what_waits_and_who_serves(api: Served, platform: Platform) -> None:
    platform.submit(workflow(only=task()))
    platform.seat().work()
    register_worker(platform.conn, "w1", "here", 7, "1", 3, ["heavy"])
    queues = {one["queue"]: one for one in api.client(Scope.READ).get("/api/v1/queues/status").json()["queues"]}
    assert (queues["light"]["waiting"], queues["light"]["workers"]) == (1, 0)
    assert queues["light"]["attention"] == "No worker serves light: start one with `rmhdag worker --queue light`."
    assert queues["light"]["oldest_seconds"] >= 0
    assert (queues["heavy"]["workers"], queues["heavy"]["slots"], queues["heavy"]["attention"]) == (1, 3, None)
    elsewhere = api.client(Scope.READ, namespace="north").get("/api/v1/queues/status").json()["queues"]
    assert [one["waiting"] for one in elsewhere] == [0, 0]


def test_queues_tell_their_pace(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    platform.submit(workflow(only=task()))
    platform.finish(seat)
    for _ in range(2):
        platform.submit(workflow(only=task()))
    seat.work()
    register_worker(platform.conn, "w1", "here", 7, "1", 3, ["light"])
    client = api.client(Scope.READ)
    (light,) = [one for one in client.get("/api/v1/queues/status").json()["queues"] if one["queue"] == "light"]
    assert (light["waiting"], light["in_per_minute"], light["out_per_minute"]) == (2, 0.6, 0.2)
    assert light["drain_seconds"] is None, "it does not get shorter"
    elsewhere = api.client(Scope.READ, namespace="north").get("/api/v1/queues/status").json()["queues"]
    assert {one["out_per_minute"] for one in elsewhere} == {0}


def test_the_pace_is_counted_once_for_the_calls_of_a_few_seconds(platform: Platform) -> None:
    """A count takes the database up to 20,000 rows: whoever asks in a loop must not take the time of others."""
    seat = platform.seat()
    platform.submit(workflow(only=task()))
    platform.finish(seat)
    for _ in range(2):
        platform.submit(workflow(only=task()))
    seat.work()
    register_worker(platform.conn, "w1", "here", 7, "1", 3, ["light"])
    now = 100.0
    rates = QueueRates(clock=lambda: now)

    def pace(namespace: str) -> tuple[Any, ...]:
        queues = processes.queues(platform.conn, namespace, ["light"], 60.0).queues
        rates.add_to(queues, platform.conn, namespace)
        (light,) = [one for one in queues if one.queue == "light"]
        return light.in_per_minute, light.out_per_minute, light.drain_seconds

    assert pace("default") == (0.6, 0.2, None)
    platform.conn.execute("UPDATE dag_queue_messages SET created_at = created_at - interval '1 hour'")
    platform.conn.execute("UPDATE dag_node_states SET dispatched_at = dispatched_at - interval '1 hour'")
    now += COUNT_SECONDS
    assert pace("default") == (0.6, 0.2, None), "the same, without another count"
    assert pace("north") == (0, 0, 0), "each namespace has its own"
    now += 0.1
    assert pace("default") == (0, 0.2, 600)


def test_processes_are_listed(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    register_worker(platform.conn, "w1", "here", 7, "1", 3, ["heavy"])
    client = api.client(Scope.READ)
    workers = {one["worker_id"]: one for one in client.get("/api/v1/workers").json()["workers"]}
    assert (workers["w1"]["alive"], workers["w1"]["queues"], workers["w1"]["tasks_held"]) == (True, ["heavy"], 0)
    (only,) = client.get("/api/v1/orchestrators").json()["orchestrators"]
    assert (only["owner_id"], only["jobs_owned"], only["alive"]) == (seat.me, 0, True)
    assert client.get("/api/v1/workers").json()["tasks"] is None
    platform.submit(workflow(only=task()))
    seat.work()
    assert client.get("/api/v1/workers?tasks=true").json()["tasks"] == [], "what waits is with no worker"
    platform.claim()
    held = client.get("/api/v1/workers?tasks=true").json()["tasks"]
    assert [(one["node_id"], one["status"]) for one in held] == [("only", "received")]
    assert held == client.get("/api/v1/tasks?status=received").json()["tasks"]
    south = api.client(Scope.READ, namespace="south")
    assert south.get("/api/v1/workers?tasks=true").json()["tasks"] == []


def test_about_has_the_versions_and_the_campaigns_that_ship_with_the_program(api: Served, platform: Platform) -> None:
    seat = platform.seat()
    register_worker(platform.conn, "w1", "here", 7, "0.0.9", 3, ["heavy"])
    with Client(api.url, key=api.key(Scope.READ)) as client:
        about = client.about()
        (orchestrator,) = client.orchestrators()
    assert orchestrator.owner_id == seat.me
    assert about.version == rmhdag.__version__
    assert about.process_versions == sorted({"0.0.9", orchestrator.version})
    assert about.chaos == read_results()
    assert about.chaos.campaigns


def test_the_dashboard_is_one_answer_with_what_its_parts_say(api: Served, platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task()))
    register_worker(platform.conn, "w1", "here", 7, "1", 3, ["heavy"])
    client = api.client(Scope.READ)
    whole = client.get("/api/v1/dashboard", params={"hours": 1, "bucket_minutes": 30}).json()
    assert [one["job_id"] for one in whole["open_jobs"]["jobs"]] == [job_id]
    assert whole["pulse"]["pending"] == client.get("/api/v1/pulse").json()["pending"] == 1
    assert "w1" in {one["worker_id"] for one in whole["workers"]["workers"]}
    assert whole["throughput"]["bucket_minutes"] == 30
    assert whole["attention"]["failures"] == []
    assert api.client(Scope.READ, namespace="north").get("/api/v1/dashboard").json()["open_jobs"]["jobs"] == []


def test_handlers_are_those_of_workers_and_of_the_package(api: Served, platform: Platform) -> None:
    register_handlers(platform.conn, [MANIFEST])
    client = api.client(Scope.READ)
    known = {one["handler"]: one for one in client.get("/api/v1/handlers").json()["handlers"]}
    assert (known["mine.clip"]["offered"], known["raster.validate"]["offered"]) == (True, False)
    assert client.get("/api/v1/handlers/mine_clip").json() == known["mine.clip"]
    assert known["mine.clip"]["params_schema"] == {"type": "object"}
    assert known["mine.clip"]["output_schema"] == MANIFEST["output_schema"]
    assert known["raster.validate"]["params_schema"]["additionalProperties"] is False
    assert known["raster.validate"]["description"]
    assert not {name for name in known if name.startswith(("h3.", "fathom.", "ml."))}
    problem(client.get("/api/v1/handlers/none"), 404, "not_found")


def test_a_dead_letter_is_shown_and_requeued_once(api: Served, platform: Platform) -> None:
    job_id = platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    letter = give_up(platform, seat)
    client = api.client(Scope.READ, Scope.OPERATE, name="ann")
    (line,) = client.get("/api/v1/dead-letters?queue=light&reason=lease_lost").json()["dead_letters"]
    assert (line["dead_letter_id"], line["job_id"]) == (letter.dead_letter_id, job_id)
    assert client.get("/api/v1/dead-letters?queue=heavy").json()["dead_letters"] == []
    path = f"/api/v1/dead-letters/{letter.dead_letter_id}"
    assert client.get(path).json()["reason"] == "lease_lost"
    activity = client.get("/api/v1/orchestrator/activity?all=true").json()
    assert [(one["job_id"], one["node_id"], one["taken_from"]) for one in activity["takeovers"]] == [
        (job_id, "only", worker) for worker in ("w2", "w1", "w0")
    ]
    problem(api.client(Scope.READ).post(f"{path}/requeue"), 403, "scope_missing")
    stranger = api.client(Scope.OPERATE, Scope.READ, namespace="north")
    assert stranger.get("/api/v1/orchestrator/activity?all=true").json()["takeovers"] == []
    for action in ("requeue", "discard"):
        problem(stranger.post(f"{path}/{action}"), 404, "not_found")
    done = client.post(f"{path}/requeue").json()
    assert done["is_new_job"]
    platform.finish(seat)
    assert platform.job(done["job_id"])["status"] == "completed"
    problem(client.post(f"{path}/requeue"), 409, "not_requeued")
    problem(client.post(f"{path}/discard"), 409, "settled_otherwise")
    assert client.get("/api/v1/dead-letters").json()["dead_letters"] == []
    (settled,) = client.get("/api/v1/dead-letters?settled_too=true").json()["dead_letters"]
    assert (settled["settled_by"], settled["settled_as"]) == ("ann", "requeued")


def test_dead_letters_are_requeued_by_filter_and_discarded(api: Served, platform: Platform) -> None:
    platform.submit(workflow(only=task()))
    seat = platform.seat()
    seat.work()
    letter = give_up(platform, seat)
    client = api.client(Scope.READ, Scope.OPERATE)
    nothing = client.post("/api/v1/dead-letters/requeue", json={"queue": "heavy"}).json()
    assert nothing == {"requeued": [], "refused": [], "complete": True}
    done = client.post("/api/v1/dead-letters/requeue", json={"queue": "light"}).json()
    assert [one["dead_letter_id"] for one in done["requeued"]] == [letter.dead_letter_id]
    problem(client.post("/api/v1/dead-letters/requeue", json={"queues": "light"}), 422, "invalid_request")
    platform.conn.execute("UPDATE dag_dead_letters SET settled_at = NULL, settled_as = NULL, settled_by = NULL")
    for _ in range(2):
        answer = client.post(f"/api/v1/dead-letters/{letter.dead_letter_id}/discard")
        assert answer.json()["settled_as"] == "discarded"


def test_dead_letters_come_in_pages(api: Served, platform: Platform) -> None:
    platform.conn.execute(
        "INSERT INTO dag_dead_letters (dead_letter_id, reason, raw) SELECT 'dl-' || n, 'malformed', 'x'"
        " FROM generate_series(1, 5) n"
    )
    client = api.client(Scope.READ, Scope.OPERATE)
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = client.get("/api/v1/dead-letters", params=query).json()
        found += [one["dead_letter_id"] for one in page["dead_letters"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == [f"dl-{number}" for number in range(1, 6)]
    refused = client.post("/api/v1/dead-letters/requeue", json={"limit": 2}).json()
    assert (len(refused["refused"]), refused["complete"]) == (2, False)


def test_the_schema_is_shown_and_brought_up_to_date(api: Served, platform: Platform) -> None:
    client = api.client(Scope.PLATFORM)
    problem(api.client(Scope.ADMIN).get("/api/v1/bootstrap/ddl"), 403, "scope_missing")
    assert client.get("/api/v1/bootstrap/ddl").json()["up_to_date"] is True
    platform.conn.execute("DROP INDEX dag_dead_letters_job_idx")
    lacking = client.get("/api/v1/bootstrap/ddl").json()
    assert (lacking["up_to_date"], lacking["applied"]) == (False, False)
    assert "dag_dead_letters_job_idx" in lacking["sql"]
    for unconfirmed in ("", "?confirm=no"):
        problem(client.post(f"/api/v1/bootstrap/migrate{unconfirmed}"), 400, "not_confirmed")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post("/api/v1/bootstrap/migrate?confirm=yes"), range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert sum(answer.json()["applied"] for answer in answers) == 1
    assert client.get("/api/v1/bootstrap/ddl").json()["up_to_date"] is True


def test_a_schema_that_is_missing_is_told(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    platform.conn.execute("ALTER TABLE dag_dead_letters RENAME TO elsewhere")
    answer = client.get("/api/v1/dead-letters")
    assert "dag_dead_letters" not in answer.text
    assert "rmhdag db migrate" in str(problem(answer, 503, "schema_mismatch")["remedy"])


def test_handlers_are_tried_in_development_only(api: Served) -> None:
    answer = api.client(Scope.OPERATE).post("/api/v1/test/handler", json={"handler": "echo", "queue": "light"})
    assert problem(answer, 403, "development_only")["remedy"]


def test_a_handler_is_tried_by_a_real_worker(migrated_database: str, tmp_path: Path) -> None:
    cluster = Cluster(migrated_database, tmp_path)
    try:
        cluster.orchestrator()
        cluster.worker("--queue", "light")
        # On a busy machine a worker needs long to end the process of a handler.
        with served(migrated_database, development=True, trial_grace_seconds=60.0) as api:
            client = api.client(Scope.OPERATE, Scope.READ)
            client.timeout = 90

            def attempt(handler: str, params: dict[str, Any], **more: Any) -> Any:
                body = {"handler": handler, "params": params, "queue": "light", "timeout_seconds": 20, **more}
                answer = client.post("/api/v1/test/handler", json=body)
                assert answer.status_code == 200, answer.text
                return answer.json()

            told = attempt("echo", {"a key": "{{ inputs.x }}", "n": None, "items": [1]})
            assert told["status"] == "completed", told
            assert told["output"] == {"echoed_params": {"a key": "{{ inputs.x }}", "n": None, "items": [1]}}
            assert told["duration_ms"] >= 0
            told = attempt("fail", {})
            assert (told["status"], bool(told["error_message"]), bool(told["error_kind"])) == ("failed", True, True)
            told = attempt("sleep", {"seconds": 30}, timeout_seconds=1)
            assert (told["status"], told["error_kind"]) == ("failed", "timeout")
            body = {"handler": "nothing", "queue": "light"}
            problem(client.post("/api/v1/test/handler", json=body), 422, "unknown_handler")
            body = {"handler": "echo", "queue": "nowhere"}
            problem(client.post("/api/v1/test/handler", json=body), 422, "unknown_queue")
            problem(client.post("/api/v1/test/handler", json={"handler": "echo"}), 422, "unknown_queue")
            assert client.get("/api/v1/workflows").json()["workflows"] == []
    finally:
        cluster.close()


def test_a_trial_without_a_worker_ends(migrated_database: str) -> None:
    with served(migrated_database, development=True, trial_grace_seconds=0.1) as api:
        body = {"handler": "echo", "queue": "light", "timeout_seconds": 1}
        told = api.client(Scope.OPERATE).post("/api/v1/test/handler", json=body).json()
        assert (told["status"], told["error_message"]) == ("timed_out", "no worker took it in time")

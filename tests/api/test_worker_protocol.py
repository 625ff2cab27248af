"""Workers over HTTP as the API sees them: what it gives out, what it believes, and what it refuses by name."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any

import httpx
import orjson
import pytest

from rmhdag.models.references import RESERVED_KEY
from rmhdag.models.scopes import Scope
from rmhdag.services.registrations import handler_queues
from rmhdag.store import payloads, workers
from tests.api.serving import Served
from tests.api.test_foundation import problem
from tests.worker.conftest import JOB, QUEUE, Desk

CALLBACKS = "/api/v1/callbacks"
GONE = "a" * 32
LISTENING = b"SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def desk(migrated_database: str) -> Iterator[Desk]:
    made = Desk(migrated_database)
    yield made
    made.close()


class Station:
    """A worker as a program of anybody's might be: a key, an id, calls."""

    def __init__(self, api: Served, namespace: str = "default", slots: int = 2, **more: Any) -> None:
        self.client = api.client(Scope.WORKER, namespace=namespace)
        self.worker_id = uuid.uuid4().hex
        self.say("workers/register", host="somewhere", version="1", slots=slots, queues=[QUEUE], **more)

    def ask(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(f"/api/v1/{path}", json={"worker_id": self.worker_id, **body})

    def say(self, path: str, **body: Any) -> Any:
        answer = self.ask(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def claim(self, limit: int = 10, wait_seconds: float = 0) -> list[dict[str, Any]]:
        found = self.say("tasks/claim", queues=[QUEUE], limit=limit, wait_seconds=wait_seconds)
        tasks: list[dict[str, Any]] = found["tasks"]
        return tasks

    def report(self, *results: dict[str, Any]) -> list[str]:
        return [one["outcome"] for one in self.say("callbacks/task-result", results=results)["outcomes"]]


@pytest.fixture
def station(api: Served, desk: Desk) -> Station:
    return Station(api)


def done(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    lease = {"task_id": task["task_id"], "lease_epoch": task["lease_epoch"]}
    return {**lease, "status": "completed", "output": {"n": 1}, **more}


def lease(task: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"task_id": task["task_id"], "lease_epoch": task["lease_epoch"], **more}


# What is given out.


def test_a_waiting_claim_is_woken_by_the_bell(station: Station, desk: Desk) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(station.claim, wait_seconds=30)
        desk.wait(lambda: desk.conn.execute(LISTENING).fetchone())
        task_id = desk.add("echo", {"a": 1})
        (task,) = waiting.result(timeout=20)
    assert (task["task_id"], task["lease_epoch"], task["params"]) == (task_id, 1, {"a": 1})


def test_a_hundred_that_wait_hold_neither_threads_nor_connections(api: Served, desk: Desk) -> None:
    stations = [Station(api) for _ in range(4)]
    threads = threading.active_count()
    with ThreadPoolExecutor(100) as pool:
        waiting = [pool.submit(stations[n % 4].claim, 1, 20) for n in range(100)]
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        # Who waits has asked once and found nothing: then all connections but the listener's are idle.
        desk.wait(lambda: desk.conn.execute(LISTENING).fetchone())
        row = desk.conn.execute(query.encode()).fetchone()
        assert row is not None
        assert row[0] <= 20
        # Answers other calls meanwhile: the test's own threads are the hundred, the server's are few.
        assert api.anonymous().get("/livez").is_success
        assert threading.active_count() - threads - 100 <= 45
        for _ in range(100):
            desk.add("echo")
        claimed = [task["task_id"] for one in waiting for task in one.result(timeout=60)]
    assert len(claimed) == len(set(claimed)) == 100


def test_waiting_misses_no_ring_between_two_waits(station: Station, desk: Desk) -> None:
    first = station.client.post("/api/v1/tasks/wait", json={"queues": [QUEUE]}).json()
    assert first["rang"]
    desk.add("echo")
    body = {"queues": [QUEUE], "after": first["place"], "wait_seconds": 20}
    second = station.client.post("/api/v1/tasks/wait", json=body).json()
    assert second["rang"]
    assert second["place"] != first["place"]
    other_life = station.client.post("/api/v1/tasks/wait", json={**body, "after": "00000000.7"}).json()
    assert other_life["rang"]


def test_only_tasks_of_the_keys_namespace_are_given_out(api: Served, desk: Desk) -> None:
    north = Station(api, namespace="north")
    task_id = desk.add("echo")
    suspect = desk.add("echo", lease_losses=2)
    assert north.claim() == []
    assert north.say("tasks/claim-suspect", queues=[QUEUE])["task"] is None
    south = Station(api)
    assert [task["task_id"] for task in south.claim()] == [task_id]
    assert south.say("tasks/claim-suspect", queues=[QUEUE])["task"]["task_id"] == suspect


def test_only_tasks_of_the_handlers_that_it_registered_are_given_out(api: Served, desk: Desk) -> None:
    picky = Station(api, handlers=[{"handler": "mine.only", "aliases": ["mine_only"]}])
    others = [desk.add("echo") for _ in range(3)]
    mine = [desk.add(name) for name in ("mine.only", "mine_only")]
    suspect = desk.add("echo", lease_losses=2)
    found = picky.say("tasks/claim", queues=[QUEUE], limit=10)
    assert [task["task_id"] for task in found["tasks"]] == mine
    assert found["suspect_waits"] is False
    assert picky.say("callbacks/task-heartbeat", tasks=[])["suspect_waits"] is False
    assert picky.say("tasks/claim-suspect", queues=[QUEUE])["task"] is None
    assert picky.claim() == []
    anybody = Station(api)
    assert [task["task_id"] for task in anybody.claim()] == others, "without a list all are given out"
    assert anybody.say("tasks/claim-suspect", queues=[QUEUE])["task"]["task_id"] == suspect


def test_a_task_is_given_back_with_a_reason_that_its_owner_is_told(station: Station, desk: Desk) -> None:
    for reason in (None, "worker_stopping"):
        desk.add("echo")
        (task,) = station.claim()
        given = lease(task, delay_seconds=3600.0, **({} if reason is None else {"reason": reason}))
        assert station.say("tasks/release", tasks=[given])["outcomes"][0]["outcome"] == "accepted"
        assert desk.inbox(task["task_id"])[-1][1]["reason"] == reason
    problem(station.ask("tasks/release", tasks=[lease(task, reason="bored")]), 422, "invalid_request")


def test_nobody_holds_more_than_it_said_it_can_take(api: Served, desk: Desk) -> None:
    """One slot: a shared child's light tasks, and what may be sent ahead. More is not given, whatever is asked for."""
    station = Station(api, slots=1)
    for _ in range(100):
        desk.add("echo")
    assert len(station.claim(limit=500)) == 83
    assert station.claim(limit=500) == []


# What is believed.


def test_a_result_is_recorded_once_however_often_and_in_whatever_order_it_comes(station: Station, desk: Desk) -> None:
    """F28 at the API: every report three times, the last batch first."""
    for _ in range(6):
        desk.add("echo")
    batches = [[done(task) for task in station.claim(2)] for _ in range(3)]
    for batch in [*reversed(batches), *batches, *batches]:
        assert station.report(*batch) == ["accepted", "accepted"]
    assert desk.conn.execute("SELECT count(*) FROM dag_task_results").fetchone() == (6,)
    assert desk.conn.execute("SELECT count(*) FROM dag_inbox WHERE kind = 'task_reported'").fetchone() == (6,)


def test_an_old_lease_changes_nothing(api: Served, station: Station, desk: Desk) -> None:
    """Released, and claimed by somebody else: whatever is said about the old lease is void."""
    desk.add("echo")
    (old,) = station.claim()
    assert station.say("tasks/release", tasks=[lease(old)])["outcomes"][0]["outcome"] == "accepted"
    other = Station(api)
    (new,) = other.claim()
    assert (new["task_id"], new["lease_epoch"]) == (old["task_id"], old["lease_epoch"] + 1)
    progress = lease(old, current=1)
    said = [
        station.say("callbacks/task-result", results=[done(old)]),
        station.say("callbacks/task-started", tasks=[lease(old)]),
        station.say("callbacks/task-progress", progress=[progress]),
        station.say("callbacks/task-checkpoint", checkpoints=[lease(old, phase="p")]),
        station.say("callbacks/task-logs", chunks=[lease(old, chunk_index=0, line_count=1, content="x")]),
        station.say("tasks/release", tasks=[lease(old)]),
    ]
    assert [one["outcomes"][0]["outcome"] for one in said] == ["stale"] * 6
    held = station.say("callbacks/task-heartbeat", tasks=[lease(old)])
    assert [one["state"] for one in held["tasks"]] == ["gone"]
    assert desk.inbox(old["task_id"]) == []
    assert other.report(done(new)) == ["accepted"]


def test_another_key_cannot_speak_for_a_worker(api: Served, station: Station, desk: Desk) -> None:
    """Not even of the same namespace: it is answered as for a worker that never was."""
    desk.add("echo")
    (task,) = station.claim()
    thief = Station(api)
    known, unknown = station.worker_id, GONE
    answers = []
    for worker_id in (known, unknown):
        thief.worker_id = worker_id
        answers.append(
            [
                thief.ask("callbacks/task-result", results=[done(task)]).json(),
                thief.ask("callbacks/task-heartbeat", tasks=[lease(task)]).json(),
                thief.ask("tasks/release", tasks=[lease(task)]).json(),
                thief.ask("tasks/claim", queues=[QUEUE]).json(),
                thief.client.post(f"/api/v1/workers/{worker_id}/heartbeat", json={}).json(),
                thief.client.delete(f"/api/v1/workers/{worker_id}").json(),
            ]
        )
    assert answers[0] == answers[1]
    assert answers[0][0]["outcomes"][0]["outcome"] == "stale"
    thief.worker_id = known
    register = {"host": "h", "version": "1", "slots": 1, "queues": [QUEUE]}
    problem(thief.ask("workers/register", **register), 409, "worker_id_taken")
    thief.worker_id = uuid.uuid4().hex
    problem(thief.ask("workers/register", before=known, **register), 409, "worker_id_taken")
    assert station.report(done(task)) == ["accepted"]


def test_a_heartbeat_tells_what_to_stop_and_what_was_never_known(station: Station, desk: Desk) -> None:
    first, second = desk.add("echo"), desk.add("echo")
    tasks = {task["task_id"]: task for task in station.claim()}
    desk.conn.execute("UPDATE dag_queue_messages SET cancel_requested = true WHERE task_id = %s", [first])
    told = station.say("callbacks/task-heartbeat", tasks=[lease(tasks[first])])
    assert [(one["task_id"], one["state"]) for one in told["tasks"]] == [(first, "cancelled")]
    assert [(one["task_id"], one["state"]) for one in told["unknown"]] == [(second, "held")]


def test_a_worker_that_was_declared_dead_is_told(station: Station, desk: Desk) -> None:
    assert station.client.post(f"/api/v1/workers/{station.worker_id}/heartbeat", json={}).is_success
    desk.declare_dead(station.worker_id)
    answer = station.client.post(f"/api/v1/workers/{station.worker_id}/heartbeat", json={})
    problem(answer, 404, "not_found")
    problem(station.ask("tasks/claim", queues=[QUEUE]), 404, "not_found")


def test_logs_of_a_lease_are_bounded_and_kept_once(station: Station, desk: Desk) -> None:
    task_id = desk.add("echo")
    (task,) = station.claim()
    chunks = [lease(task, chunk_index=n, line_count=1, content="x" * 65_536) for n in range(20)]
    for _ in range(2):
        told = station.say("callbacks/task-logs", chunks=chunks[:5])
        assert {one["outcome"] for one in told["outcomes"]} == {"accepted"}
    told = station.say("callbacks/task-logs", chunks=chunks[5:])
    assert [one["outcome"] for one in told["outcomes"]] == ["accepted"] * 12 + ["refused"] * 3
    assert len(desk.log(task_id)) == 17 * 65_536


def test_a_result_beside_a_bad_one_is_recorded(station: Station, desk: Desk) -> None:
    for _ in range(3):
        desk.add("echo")
    tasks = station.claim()
    nothing = {"sha256": "0" * 64, "size_bytes": 5, "media_type": "application/json"}
    results = [
        done(tasks[0]),
        done(tasks[1], output=None, stored_output=nothing),
        done(tasks[2], output={"text": "x" * 100_000}),
    ]
    told = station.say("callbacks/task-result", results=results)["outcomes"]
    assert [one["outcome"] for one in told] == ["accepted", "refused", "accepted"]
    assert "send that first" in told[1]["reason"]
    reference = desk.result(tasks[2]["task_id"]).output[RESERVED_KEY]
    assert payloads.read_json(desk.conn, "default", reference["sha256"]) == {"text": "x" * 100_000}


def test_records_come_with_the_result_inline_or_as_a_payload(station: Station, desk: Desk) -> None:
    for _ in range(5):
        desk.add("echo")
    tasks = station.claim()
    blob = {"type": "blob", "zone": "silver", "container": "c", "path": "a.tif", "size_bytes": 1, "role": "data"}
    blob["sha256"] = "0" * 64
    many = [{**blob, "path": f"{n}.tif"} for n in range(1_000)]
    reference = asdict(payloads.write_json(desk.conn, "default", None, orjson.dumps(many)))
    results = [
        done(tasks[0], records=[blob]),
        done(tasks[1], records=many),
        done(tasks[2], stored_records=reference),
        done(tasks[3], stored_records={**reference, "size_bytes": 1}),
        done(tasks[4], records=[]),
    ]
    told = station.say("callbacks/task-result", results=results)["outcomes"]
    assert [one["outcome"] for one in told] == ["accepted"] * 3 + ["refused", "accepted"]
    assert "stored_records: it refers to a payload that is not there" in told[3]["reason"]
    query = "SELECT records FROM dag_task_results WHERE task_id = %s"
    kept = [desk.conn.execute(query, [tasks[n]["task_id"]]).fetchone() for n in (0, 1, 2, 4)]
    assert kept[0] == ([blob],)
    assert kept[1] is not None
    assert payloads.read_json(desk.conn, "default", kept[1][0][RESERVED_KEY]["sha256"]) == many
    assert kept[2] == ({RESERVED_KEY: reference},)
    assert kept[3] == (None,)
    stored = {one[0] for one in desk.conn.execute("SELECT DISTINCT sha256 FROM dag_payloads")}
    uses = desk.conn.execute("SELECT sha256, holder FROM dag_payload_uses").fetchall()
    assert {sha256 for sha256, _ in uses} == stored
    assert {holder for _, holder in uses} == {JOB}


# Payloads.


def test_a_payload_goes_up_and_down_in_chunks(api: Served, station: Station, desk: Desk) -> None:
    text = orjson.dumps({"text": "ü" * 1_500_000})
    digest = sha256(text).hexdigest()
    chunks = [text[start : start + 1_048_576] for start in range(0, len(text), 1_048_576)]
    finish = {"size_bytes": len(text), "chunk_count": len(chunks)}

    def send(index: int, chunk: bytes) -> httpx.Response:
        octets = {"Content-Type": "application/octet-stream"}
        return station.client.put(f"/api/v1/payloads/{digest}/chunks/{index}", content=chunk, headers=octets)

    problem(station.client.post(f"/api/v1/payloads/{digest}", json=finish), 422, "payload_refused")
    assert send(2, chunks[2]).status_code == 204
    assert send(0, b"something else").status_code == 204
    assert send(1, chunks[1]).status_code == 204
    problem(station.client.post(f"/api/v1/payloads/{digest}", json=finish), 422, "payload_refused")
    problem(station.client.get(f"/api/v1/payloads/{digest}"), 404, "not_found")
    assert send(0, chunks[0]).status_code == 204
    for _ in range(2):
        reference = station.client.post(f"/api/v1/payloads/{digest}", json=finish).json()
        assert reference == {"sha256": digest, "size_bytes": len(text), "media_type": "application/json"}
    assert station.client.get(f"/api/v1/payloads/{digest}").json()["chunk_count"] == 3
    fetched = [station.client.get(f"/api/v1/payloads/{digest}/chunks/{index}").content for index in range(3)]
    assert b"".join(fetched) == text
    assert payloads.read_text(desk.conn, "default", digest) == text
    other = api.client(Scope.WORKER, namespace="north")
    problem(other.get(f"/api/v1/payloads/{digest}"), 404, "not_found")
    problem(other.get(f"/api/v1/payloads/{digest}/chunks/0"), 404, "not_found")
    problem(send(0, b"x" * 1_048_577), 413, "chunk_too_large")


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"{", "not JSON"), (b'{"a":"\\u0000"}', "NUL"), (b'{\n"a":1}', "more than one line"), (b"\xff", "not JSON")],
)
def test_a_payload_that_cannot_be_passed_on_is_refused(station: Station, text: bytes, said: str) -> None:
    digest = sha256(text).hexdigest()
    octets = {"Content-Type": "application/octet-stream"}
    station.client.put(f"/api/v1/payloads/{digest}/chunks/0", content=text, headers=octets)
    answer = station.client.post(f"/api/v1/payloads/{digest}", json={"size_bytes": len(text), "chunk_count": 1})
    assert said in str(problem(answer, 422, "payload_refused")["detail"])


# What is refused: FAULTS 81 to 91.

REGISTER = {"host": "h", "version": "1", "slots": 1, "queues": [QUEUE]}
LEASE = {"task_id": "t", "lease_epoch": 1}
ECHO = {"handler": "echo"}


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("workers/register", {**REGISTER, "schema_version": 99}, "/schema_version"),
        ("workers/register", {**REGISTER, "slots": 10**9}, "/slots"),
        ("workers/register", {**REGISTER, "slots": 0}, "/slots"),
        ("workers/register", {**REGISTER, "slots": "many"}, "/slots"),
        ("workers/register", {**REGISTER, "worker_id": "me"}, "/worker_id"),
        ("workers/register", {**REGISTER, "queues": []}, "/queues"),
        ("workers/register", {**REGISTER, "queues": ["a", "a"]}, "/queues"),
        ("workers/register", {**REGISTER, "handlers": [ECHO, ECHO]}, ""),
        ("workers/register", {**REGISTER, "handlers": [{**ECHO, "aliases": ["echo"]}]}, ""),
        ("workers/register", {**REGISTER, "is_admin": True}, "/is_admin"),
        ("tasks/claim", {"queues": [QUEUE], "limit": 501}, "/limit"),
        ("tasks/claim", {"queues": [QUEUE], "limit": 0}, "/limit"),
        ("tasks/claim", {"queues": [QUEUE], "wait_seconds": 31}, "/wait_seconds"),
        ("tasks/claim", {"queues": ["../x"]}, "/queues/0"),
        ("tasks/release", {"tasks": [{**LEASE, "delay_seconds": -1}]}, "/tasks/0/delay_seconds"),
        ("callbacks/task-result", {"results": []}, "/results"),
        (
            "callbacks/task-result",
            {"results": [{**LEASE, "status": "completed", "records": [{"type": "x"}]}]},
            "/results/0/records/0",
        ),
        ("callbacks/task-result", {"results": [{**LEASE}]}, "/results/0/status"),
        ("callbacks/task-result", {"results": [{**LEASE, "status": "running"}]}, "/results/0/status"),
        ("callbacks/task-result", {"results": [{**LEASE, "status": "failed"}]}, "/results/0"),
        ("callbacks/task-result", {"results": [{**LEASE, "status": "completed", "owner": 1}]}, "/results/0/owner"),
        (
            "callbacks/task-result",
            {"results": [{**LEASE, "status": "failed", "error_kind": "lease_lost"}]},
            "/results/0/error_kind",
        ),
        ("callbacks/task-result", {"results": [{**LEASE, "status": "completed", "output": [1]}]}, "/results/0/output"),
        ("callbacks/task-result", {"results": [{**LEASE, "status": "completed"}] * 2}, "/results/1/task_id"),
        ("callbacks/task-progress", {"progress": [{**LEASE, "current": -1}]}, "/progress/0/current"),
        ("callbacks/task-progress", {"progress": [{**LEASE, "current": 1, "percent": 150}]}, "/progress/0/percent"),
        ("callbacks/task-progress", {"progress": [{**LEASE, "current": 1, "percent": -1}]}, "/progress/0/percent"),
        ("callbacks/task-checkpoint", {"checkpoints": [{**LEASE, "phase": ""}]}, "/checkpoints/0/phase"),
        (
            "callbacks/task-checkpoint",
            {"checkpoints": [{**LEASE, "phase": "p", "data": "x" * 70_000}]},
            "/checkpoints/0/data",
        ),
        (
            "callbacks/task-logs",
            {"chunks": [{**LEASE, "chunk_index": 0, "line_count": 1, "content": "ü" * 40_000}]},
            "/chunks/0",
        ),
        ("callbacks/task-heartbeat", {"tasks": [{"task_id": "t", "lease_epoch": 2**63}]}, "/tasks/0/lease_epoch"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    station: Station, path: str, body: dict[str, Any], pointer: str
) -> None:
    answer = station.ask(path, **body)
    assert answer.status_code in (400, 422), answer.text
    assert pointer in [place["pointer"] for place in answer.json()["errors"]]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_progress_that_is_no_number_is_refused(station: Station, number: str) -> None:
    said = '"progress": [{"task_id": "t", "lease_epoch": 1, "current": 1, "percent": ' + number + "}]"
    text = f'{{"worker_id": "{station.worker_id}", {said}}}'
    answer = station.client.post(f"{CALLBACKS}/task-progress", content=text, headers=JSON)
    problem(answer, 400, "invalid_json")


def test_progress_beyond_its_total_is_all_of_it(station: Station, desk: Desk) -> None:
    """As that of a handler whose worker has the database."""
    desk.add("echo")
    (task,) = station.claim()
    for told, percent in (
        ({"current": 150, "total": 100}, 100),
        ({"current": 1, "total": 4}, 25),
        ({"current": 1}, None),
    ):
        station.say("callbacks/task-progress", progress=[lease(task, **told)])
        found = desk.conn.execute("SELECT progress_current, progress_percent FROM dag_task_results").fetchone()
        assert found == (told["current"], percent)


def test_truncated_json_is_refused(station: Station) -> None:
    text = f'{{"worker_id": "{station.worker_id}", "results": [{{"task_id": "t", "lea'
    answer = station.client.post(f"{CALLBACKS}/task-result", content=text, headers=JSON)
    problem(answer, 400, "invalid_json")


def test_a_result_of_200_megabytes_is_refused_before_it_is_read(station: Station) -> None:
    url = station.client.base_url
    connection = HTTPConnection(url.host, url.port or 80, timeout=20)
    connection.request("POST", f"{CALLBACKS}/task-result", headers={**JSON, "Content-Length": str(200 * 1024 * 1024)})
    answer = connection.getresponse()
    assert (answer.status, orjson.loads(answer.read())["code"]) == (413, "body_too_large")
    connection.close()


def test_a_result_for_what_never_was_is_stale(station: Station) -> None:
    never = {"task_id": "never", "lease_epoch": 1, "status": "completed"}
    assert station.report(never) == ["stale"]


def test_outputs_may_be_nested_as_deeply_as_with_the_database(station: Station, desk: Desk) -> None:
    def nested(depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(depth - 1):
            value = {"a": value}
        return value

    desk.add("echo")
    (task,) = station.claim()
    told = station.ask("callbacks/task-result", results=[done(task, output=nested(65))])
    assert "nested too deeply" in str(problem(told, 400, "invalid_json")["detail"])
    assert station.report(done(task, output=nested(64))) == ["accepted"]


# What handlers there are.


def manifest(handler: str, queue: str, *aliases: str) -> dict[str, Any]:
    return {"handler": handler, "queue": queue, "version": "1", "aliases": aliases}


def queues_of(api: Served, namespace: str) -> dict[str, str | None]:
    listed = api.client(Scope.READ, namespace=namespace).get("/api/v1/handlers").json()["handlers"]
    return {one["handler"]: one["queue"] for one in listed}


def offer(api: Served, namespace: str, *handlers: dict[str, Any]) -> httpx.Response:
    station = Station(api, namespace)
    return station.ask("workers/register", host="somewhere", version="1", slots=1, queues=[QUEUE], handlers=handlers)


def test_a_namespace_describes_handlers_for_itself_only(api: Served, desk: Desk) -> None:
    shared = manifest("mine.clip", "light") | {"description": "", "params_schema": {}, "aliases": []}
    workers.register_handlers(desk.conn, [shared])
    before = queues_of(api, "default")
    offer(api, "north", manifest("echo", "evil", "hello_world", "sleep"), manifest("mine.clip", "evil"))
    offer(api, "north", manifest("north.own", "northern", "echo", "mine.clip", "clip"))
    offer(api, "south", manifest("south.first", "evil"), manifest("north.own", "evil"))
    offer(api, "south", manifest("south.own", "evil", "north.own"))
    assert queues_of(api, "default") == before
    own = queues_of(api, "north")
    assert own == before | {"north.own": "northern"}
    chosen = handler_queues(desk.conn, "north")
    assert (chosen["north.own"], chosen["clip"], chosen["mine.clip"]) == ("northern", "northern", "light")
    assert "evil" not in {chosen.get(name) for name in (*before, *own)}


def test_a_namespace_describes_its_own_handlers_anew_until_all_have_them(api: Served, desk: Desk) -> None:
    offer(api, "north", manifest("north.own", "first"))
    offer(api, "north", manifest("north.own", "second"))
    assert queues_of(api, "north")["north.own"] == "second"
    assert "north.own" not in queues_of(api, "default")
    shared = manifest("north.own", "light") | {"description": "", "params_schema": {}, "aliases": []}
    workers.register_handlers(desk.conn, [shared])
    offer(api, "north", manifest("north.own", "third"))
    assert queues_of(api, "north")["north.own"] == queues_of(api, "default")["north.own"] == "light"

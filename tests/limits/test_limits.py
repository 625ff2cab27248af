"""Each limit of the table, tried just below and just above. For what handlers return, see test_on_processes.py too."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.handlers.contract import checked_checkpoint
from rmhdag.handlers.running import outcome_of
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.json_values import NotJsonError
from rmhdag.models.leases import TaskReport
from rmhdag.models.limits import LIMITS, MB, PAYLOAD_CHUNK_BYTES, Limit, render_page
from rmhdag.models.records import RecordsTooLargeError, decode_records, encode_records
from rmhdag.models.references import RESERVED_KEY, Reference
from rmhdag.models.states import TaskStatus
from rmhdag.services.submissions import submit
from rmhdag.store import tasks
from rmhdag.worker.child import Channel, TaskLink
from rmhdag.worker.database_transport import DatabaseTransport
from rmhdag.worker.frames import FrameReader
from rmhdag.worker.references import UnresolvedReferenceError, resolve_references
from rmhdag.worker.reports import Finished, report_batch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import FanInNode, FanOutNode, InputDefinition, WorkflowNode
from rmhdag.workflow.expressions import ExpressionError, compile_template
from rmhdag.workflow.loader import load
from rmhdag.workflow.parameters import ValueCheck
from rmhdag.workflow.patterns import pattern_fault
from rmhdag.workflow.problems import InvalidWorkflow
from tests.engine.definitions import fan, spec, task, workflow
from tests.engine.driver import Job
from tests.limits.place import Place, nested, of_text, text_of

ROOT = Path(__file__).resolve().parents[2]
TABLE = {(part, limit.what): limit for part, limits in LIMITS.items() for limit in limits}

# Whether something of that size passes. What "passes" means, the table says.
Passes = Callable[[Place, int], bool]
CASES: dict[tuple[str, str], Passes] = {}


def limit(part: str, what: str) -> Callable[[Passes], Passes]:
    def keep(passes: Passes) -> Passes:
        CASES[part, what] = passes
        return passes

    return keep


@pytest.mark.parametrize(("part", "what"), TABLE, ids=lambda word: str(word).replace(" ", "_"))
def test_just_below_and_just_above(place: Place, part: str, what: str) -> None:
    passes, value = CASES[part, what], TABLE[part, what].value
    assert [passes(place, value), passes(place, value + 1)] == [True, False]


def test_every_limit_has_its_case() -> None:
    assert CASES.keys() == TABLE.keys()


def test_the_page_is_up_to_date() -> None:
    """Made by `python -m rmhdag.models.limits > docs/limits.md`."""
    assert (ROOT / "docs" / "limits.md").read_text(encoding="utf-8") == render_page()
    assert all(isinstance(one, Limit) for one in TABLE.values())


def is_valid(source: Any) -> bool:
    try:
        load(source)
    except InvalidWorkflow:
        return False
    return True


FILE = "workflow_id: w\nname: W\nnodes:\n  a: {type: task, handler: echo, queue: light}\n"


@limit("Workflows", "a workflow file")
def _(place: Place, size: int) -> bool:
    return is_valid(FILE + "#" * (size - len(FILE)))


@limit("Workflows", "nodes of a workflow")
def _(place: Place, count: int) -> bool:
    nodes = {f"n{n}": {"type": "task", "handler": "echo", "queue": "light"} for n in range(count)}
    return is_valid({"workflow_id": "w", "name": "W", "nodes": nodes})


@limit("Workflows", "the name of a node")
def _(place: Place, characters: int) -> bool:
    """It runs, too: the name of a fan-out's child is longer still."""
    name = "n" * characters
    task_of_child = {"handler": "echo", "queue": "light", "params": {"item": "{{ item }}"}}
    nodes = {name: {"type": "fan_out", "source": [1, 2], "task": task_of_child}}
    if not is_valid({"workflow_id": "w", "nodes": nodes}):
        return False
    loaded = load({"workflow_id": "w", "nodes": nodes})
    return bool(place.run(loaded.definition, {})["status"] == "completed")


@limit("Workflows", "a text with templates")
def _(place: Place, characters: int) -> bool:
    return _compiles("{{ inputs.a }}" + "x" * (characters - 14))


@limit("Workflows", "one expression")
def _(place: Place, characters: int) -> bool:
    """What is between the braces."""
    return _compiles("{{ '" + "x" * (characters - 4) + "' }}")


@limit("Workflows", "a pattern")
def _(place: Place, characters: int) -> bool:
    return pattern_fault("x" * characters) is None


@limit("Workflows", "a pattern with its repetitions written out")
def _(place: Place, parts: int) -> bool:
    return pattern_fault(f"x{{{parts - 1}}}y") is None


@limit("Workflows", "a text that a pattern is matched against")
def _(place: Place, characters: int) -> bool:
    check = ValueCheck()
    check.value({"type": "string", "pattern": "x"}, "x" * characters, ("text",))
    return not check.faults


def _compiles(text: str) -> bool:
    try:
        compile_template(text)
    except ExpressionError:
        return False
    return True


@limit("Workflows", "a text produced by an expression")
def _(place: Place, characters: int) -> bool:
    definition = of_text(only=task(params={"made": "{{ inputs.text ~ 'abc' }}"}))
    return bool(place.run(definition, {"text": "x" * (characters - 3)})["status"] == "completed")


@limit("Jobs", "the parameters of a job, with defaults")
def _(place: Place, size: int) -> bool:
    return _is_taken(place, {"text": text_of(size, around={"text": ""})})


@limit("Jobs", "their depth")
def _(place: Place, levels: int) -> bool:
    place.platform.register(workflow(only=task()))
    try:
        submit(place.platform.conn, "under_test", {"items": nested(levels - 1)}, submitted_by="ann")
    except InvalidInputs:
        return False
    return True


def _is_taken(place: Place, params: dict[str, Any]) -> bool:
    place.platform.register(of_text(only=task()))
    try:
        submit(place.platform.conn, "under_test", params, submitted_by="ann")
    except InvalidInputs:
        return False
    return True


def three_times(size: int) -> tuple[dict[str, str], list[str]]:
    """An object with a list three times, of that size together."""
    pad = "x"
    length = (size - len(orjson.dumps({"pad": pad}))) // 3 - 9
    pad += "x" * (size - len(orjson.dumps({"pad": pad})) - 3 * (length + 9))
    return {"pad": pad, **dict.fromkeys("abc", "{{ inputs.items }}")}, ["x" * length]


@limit("Jobs", "the resolved parameters of a node")
def _(place: Place, size: int) -> bool:
    params, items = three_times(size)
    return bool(place.run(workflow(only=task(params=params)), {"items": items})["status"] == "completed")


@limit("Jobs", "the resolved result of a job")
def _(place: Place, size: int) -> bool:
    outputs, items = three_times(size)
    return bool(place.run(workflow(outputs, only=task()), {"items": items})["status"] == "completed")


@limit("Jobs", "parameters in a row")
def _(place: Place, size: int) -> bool:
    before = place.payload_count()
    text = "x" * (size - len("text") - 6)
    place.run(of_text(only=task(params={"text": "{{ inputs.text }}"})), {"text": text})
    return place.payload_count() == before


@limit("Jobs", "a result in its row")
def _(place: Place, size: int) -> bool:
    definition = of_text(only=task()).model_copy(update={"outputs": {"text": "{{ inputs.text }}"}})
    result = place.run(definition, {"text": "x" * (size - len("text") - 6)})["result"]
    return isinstance(result["text"], str)


@limit("Jobs", "a stored value that expressions can read")
def _(place: Place, size: int) -> bool:
    reading = task(params={"n": "{{ nodes.made.output.n }}"})
    job_id = place.platform.submit(workflow(made=task("read"), read=reading))
    place.seat.work()
    place.report_stored({"n": 1, "text": text_of(size, around={"n": 1, "text": ""})})
    place.platform.finish(place.seat)
    return bool(place.platform.job(job_id)["status"] == "completed")


@limit("Jobs", "items of a fan-out")
def _(place: Place, count: int) -> bool:
    """In the engine alone: half a million children are minutes of inserts."""
    return Job(fan(), {"items": [0] * count}).begin().rows["split"].status == "running"


@limit("Jobs", "the output of a fan-in")
def _(place: Place, size: int) -> bool:
    results = []
    for aggregation, around in (
        ("collect", {"results": [""], "count": 1}),
        ("merge", {"result": {"a": ""}, "count": 1}),
    ):
        text = text_of(size, around=around)
        reducer = Reducer(aggregation)
        try:
            whole = reducer.open() + reducer.add("split__0", text if aggregation == "collect" else {"a": text})
            results.append(len(whole + reducer.close()) <= size)
        except ReduceError:
            results.append(False)
    assert len(set(results)) == 1
    return results[0]


@limit("Jobs", "failures that a fan-in names")
def _(place: Place, count: int) -> bool:
    reducer = Reducer("collect", lists_failures=True)
    for index in range(count):
        reducer.fail(f"split__{index}", "boom")
    return len(orjson.loads(reducer.open() + reducer.close())["failures"]) == count


@limit("Jobs", "child jobs in child jobs")
def _(place: Place, levels: int) -> bool:
    """The deepest job that is allowed; one below it is refused."""
    place.platform.register(workflow(only=task()).model_copy(update={"workflow_id": "inner"}))
    job_id = place.platform.submit(workflow(sub=WorkflowNode(workflow="inner")))
    place.platform.conn.execute("UPDATE dag_jobs SET depth = %s WHERE job_id = %s", [levels - 1, job_id])
    place.platform.finish(place.seat)
    return bool(place.platform.job(job_id)["status"] == "completed")


@limit("Jobs", "labels of a job or an order")
def _(place: Place, count: int) -> bool:
    return answer_to(place, orjson.dumps(submission(labels={f"k{number}": "" for number in range(count)}))) == 201


@limit("Jobs", "the key of a label")
def _(place: Place, characters: int) -> bool:
    return answer_to(place, orjson.dumps(submission(labels={"k" * characters: ""}))) == 201


@limit("Jobs", "the value of a label")
def _(place: Place, characters: int) -> bool:
    """As long in bytes as characters can make it."""
    return answer_to(place, orjson.dumps(submission(labels={"aoi": "🗺" * characters}))) == 201


@limit("Jobs", "an error message")
def _(place: Place, characters: int) -> bool:
    """Of a child job, with what its parent puts before it."""
    platform = place.platform
    platform.register(workflow(only=task()).model_copy(update={"workflow_id": "inner"}))
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="inner")))
    place.seat.work()
    (claimed,) = platform.claim()
    message = "x" * (characters - len(f"child job {claimed.job_id} failed: node 'only' failed: !")) + "!"
    failed = TaskReport(claimed.task_id, claimed.lease_epoch, TaskStatus.FAILED, ErrorKind.NON_RETRYABLE, message, 1)
    tasks.report_tasks(platform.conn, platform.worker_id, [failed])
    place.seat.work()
    query = "SELECT error_message FROM dag_node_states WHERE job_id = %s AND status = 'failed'"
    [(kept,)] = platform.conn.execute(query, [job_id]).fetchall()
    return bool(kept.endswith("!"))


def test_a_fan_out_may_have_a_long_name_and_many_failures(place: Place) -> None:
    """The message that names them was longer than its column: the job ended as an error of the engine."""
    name = "a" * 40
    nodes: dict[str, Any] = {
        name: FanOutNode(source="{{ inputs.items }}", task=spec(), next=("join",)),
        "join": FanInNode(source_node=name, aggregation="collect"),
    }
    definition = workflow(**nodes)
    job_id = place.platform.submit(definition, {"items": [0] * 100})
    place.seat.work()
    place.platform.fail(*place.platform.claim(), kind=ErrorKind.NON_RETRYABLE)
    place.seat.work()
    job = place.platform.job(job_id)
    assert job["status"] == "failed"
    assert job["error_message"].startswith("node 'join' failed: 100 of 100 children failed: ")


@limit("Tasks", "an output in its row")
def _(place: Place, size: int) -> bool:
    platform = place.platform
    job_id = platform.submit(workflow(only=task()))
    place.seat.work()
    (claimed,) = platform.claim()
    text = orjson.dumps({"text": text_of(size, around={"text": ""})})
    transport = DatabaseTransport(WorkerSettings(queues=("light",), dsn=platform.dsn))
    try:
        report_batch(transport, platform.worker_id, [Finished(claimed, TaskStatus.COMPLETED, output=text)])
    finally:
        transport.close()
    place.seat.work()
    return RESERVED_KEY not in platform.job(job_id)["result"]["only"]


@limit("Tasks", "an output")
def _(place: Place, size: int) -> bool:
    outcome = outcome_of({"text": text_of(size, around={"text": ""})})
    return outcome.error_kind is not ErrorKind.OUTPUT_REFUSED


@limit("Tasks", "the depth of an output")
def _(place: Place, levels: int) -> bool:
    return outcome_of({"deep": nested(levels - 1)}).error_kind is not ErrorKind.OUTPUT_REFUSED


@limit("Tasks", "the stored values in a task's parameters, together")
def _(place: Place, size: int) -> bool:
    halves = [Reference("a" * 64, size // 2), Reference("b" * 64, size - size // 2)]
    try:
        resolve_references({"both": [half.as_json() for half in halves]}, lambda digest: b"{}")
    except UnresolvedReferenceError:
        return False
    return True


def item(size: int) -> dict[str, Any]:
    made = {"type": "stac_item", "collection_id": "c", "item": {"id": "i", "text": ""}}
    made["item"] = {"id": "i", "text": text_of(size, around=made)}
    return made


@limit("Tasks", "the records of a result")
def _(place: Place, size: int) -> bool:
    """Seventeen, for one is at most as large as a row."""
    rest = size - 2 - 16 * (MB - 100_000 + 1)
    records = (
        decode_records([item(MB - 100_000)] * 16 + [item(rest)])
        if rest < MB
        else decode_records([item(MB - 100_000)] * 16 + [item(rest // 2), item(rest - rest // 2 - 1)])
    )
    try:
        return len(encode_records(records)) == size
    except RecordsTooLargeError:
        return False


@limit("Tasks", "records of a result")
def _(place: Place, count: int) -> bool:
    try:
        decode_records([{"type": "lineage", "source_url": "https://example.org/a"}] * count)
    except ValueError:
        return False
    return True


@limit("Tasks", "the data of a checkpoint")
def _(place: Place, size: int) -> bool:
    try:
        checked_checkpoint("phase", {"text": text_of(size, around={"text": ""})})
    except NotJsonError:
        return False
    return True


@limit("Tasks", "metrics of a result")
def _(place: Place, size: int) -> bool:
    try:
        HandlerResult(metrics={"text": text_of(size, around={"text": ""})})
    except ValueError:
        return False
    return True


@limit("Tasks", "the log of a task")
def _(place: Place, size: int) -> bool:
    """What the process that runs the handler passes on."""
    here, there = socket.socketpair()
    arrived: list[tuple[str, bool]] = []

    def read() -> None:
        frames = FrameReader()
        while data := there.recv(1_000_000):
            arrived.extend((frame[2], frame[3]) for frame in frames.feed(data))

    reader = threading.Thread(target=read)
    reader.start()
    with here, there:
        channel = Channel(here.fileno())
        link = TaskLink(channel, 1)
        for start in range(0, size, 60_000):
            link.log("x" * min(60_000, size - start))
        here.shutdown(socket.SHUT_WR)
        reader.join(30)
        channel.socket.detach()
    return sum(len(text) for text, _ in arrived) == size


@limit("Tasks", "a piece of a log")
def _(place: Place, size: int) -> bool:
    station = {"worker_id": uuid4().hex}
    here = {"host": "here", "version": "1", "slots": 1, "queues": ["light"]}
    assert place.client.post("/api/v1/workers/register", json={**station, **here}).is_success
    chunk = {"task_id": "t", "lease_epoch": 1, "chunk_index": 0, "line_count": 1, "content": "x" * size}
    answer = place.client.post("/api/v1/callbacks/task-logs", json={**station, "chunks": [chunk]})
    return answer.is_success


def answer_to(place: Place, body: bytes, path: str = "/api/v1/jobs") -> int:
    place.platform.register(of_text(only=task()))
    return place.client.post(path, content=body, headers={"Content-Type": "application/json"}).status_code


def submission(**more: Any) -> dict[str, Any]:
    return {"workflow_id": "under_test", "input_params": {}, **more}


@limit("HTTP", "a body with parameters, a workflow or results of tasks")
def _(place: Place, size: int) -> bool:
    body = orjson.dumps(submission())
    return answer_to(place, body + b" " * (size - len(body))) == 201


@limit("HTTP", "any other body")
def _(place: Place, size: int) -> bool:
    job_id = place.platform.submit(of_text(only=task()))
    return answer_to(place, b"{}" + b" " * (size - 2), f"/api/v1/jobs/{job_id}/cancel") < 300


@limit("HTTP", "values in a body")
def _(place: Place, count: int) -> bool:
    """Five of them are the submission and what is around the list; it is refused for its own reasons."""
    body = b'{"workflow_id":"w","input_params":{"items":[' + b",".join([b"1"] * (count - 4)) + b"]}}"
    return answer_to(place, body) != 413


@limit("HTTP", "lists and objects in a body, empty ones too")
def _(place: Place, count: int) -> bool:
    """Three of them are the submission and what is around."""
    body = b'{"workflow_id":"w","input_params":{"items":[' + b",".join([b"{}"] * (count - 3)) + b"]}}"
    return answer_to(place, body) != 413


@limit("HTTP", "address and headers")
def _(place: Place, size: int) -> bool:
    request = place.client.build_request("GET", "/api/v1/health", headers={"X-Filling": ""})
    taken = len(request.url.raw_path) + sum(len(name) + len(value) for name, value in request.headers.raw)
    request.headers["X-Filling"] = "x" * (size - taken)
    return place.client.send(request).status_code != 431


@limit("HTTP", "the depth of a body")
def _(place: Place, levels: int) -> bool:
    return answer_to(place, orjson.dumps(nested(levels))) != 400


@limit("HTTP", "jobs in one submission")
def _(place: Place, count: int) -> bool:
    return answer_to(place, orjson.dumps({"jobs": [submission()] * count}), "/api/v1/jobs/batch") < 300


@limit("HTTP", "their parameters with defaults, together")
def _(place: Place, size: int) -> bool:
    """All but the last have the default, a megabyte each; the last makes it up to the size."""
    default = text_of(MB, around={"text": ""})
    declared = {"text": InputDefinition(type="string", default=default)}
    place.platform.register(workflow(only=task()).model_copy(update={"inputs": declared}))
    last = text_of(size - (size // MB - 1) * MB, around={"text": ""})
    jobs = [submission()] * (size // MB - 1) + [submission(input_params={"text": last})]
    return place.client.post("/api/v1/jobs/batch", json={"jobs": jobs}).status_code < 300


@limit("HTTP", "an idempotency key")
def _(place: Place, characters: int) -> bool:
    return answer_to(place, orjson.dumps(submission(idempotency_key="k" * characters))) == 201


@limit("HTTP", "a callback URL")
def _(place: Place, characters: int) -> bool:
    url = "https://example.org/"
    return answer_to(place, orjson.dumps(submission(callback_url=url + "x" * (characters - len(url))))) == 201


@limit("HTTP", "a reason for a decision or a cancel")
def _(place: Place, characters: int) -> bool:
    job_id = place.platform.submit(of_text(only=task()))
    body = orjson.dumps({"reason": "x" * characters})
    return answer_to(place, body, f"/api/v1/jobs/{job_id}/cancel") < 300


def put_chunk(place: Place, digest: str, index: int, data: bytes) -> bool:
    octets = {"Content-Type": "application/octet-stream"}
    return place.client.put(f"/api/v1/payloads/{digest}/chunks/{index}", content=data, headers=octets).is_success


@limit("HTTP", "a chunk of a payload")
def _(place: Place, size: int) -> bool:
    return put_chunk(place, "a" * 64, 0, b"x" * size)


@limit("HTTP", "a payload")
def _(place: Place, size: int) -> bool:
    """Without sending 64 MB: what is announced is looked at before what has arrived."""
    finish = {"size_bytes": size, "chunk_count": 64}
    answer = place.client.post(f"/api/v1/payloads/{'b' * 64}", json=finish)
    assert answer.status_code == 422
    assert TABLE["HTTP", "a payload"].value <= 64 * PAYLOAD_CHUNK_BYTES
    return bool(answer.json()["code"] == "payload_refused")

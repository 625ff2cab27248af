"""Bodies within all limits that are made to take long, sent to every operation that takes one.

Sent one by one: what an answer takes is what it takes on an otherwise idle server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import httpx
import orjson

from rmhdag.models.limits import BODY_BYTES, BODY_CONTAINERS, BODY_VALUES, FILE_BYTES, SMALL_BODY_BYTES
from rmhdag.models.scopes import Scope
from tests.api.serving import Served

JSON, YAML = "application/json", "application/yaml"
MOST_SECONDS = 1.0
SHOWN = 10
NO_ANSWER = 599
# The rest is for what is around.
BYTES = BODY_BYTES - 200_000
INPUT = 8_000_000
PATTERN = "^(?:[ab]*a[ab]{400}|x)$"


class Answer(NamedTuple):
    operation: str
    kind: str
    size_bytes: int
    milliseconds: float
    # Of the server and the caller, without the database and the processes that check.
    cpu_milliseconds: float
    status: int

    def line(self) -> str:
        size = f"{self.size_bytes / 1000:,.0f} KB"
        times = f"{self.milliseconds:7,.0f} ms ({self.cpu_milliseconds:,.0f} ms of processor)"
        return f"{self.operation:44} {self.kind:40} {size:>10} {times:>38}  {self.status}"


@dataclass
class Answers:
    all: list[Answer] = field(default_factory=list)
    left_out: int = 0

    @property
    def slowest(self) -> list[Answer]:
        return sorted(self.all, key=lambda answer: -answer.milliseconds)[:SHOWN]

    @property
    def is_clean(self) -> bool:
        """Nothing too late, and no failure of the server."""
        return not self.left_out and all(
            answer.milliseconds <= MOST_SECONDS * 1000 and answer.status < 500 for answer in self.all
        )

    def facts(self) -> dict[str, Any]:
        return {"cases": len(self.all), "left_out": self.left_out, "slowest": [one._asdict() for one in self.slowest]}

    def report(self) -> str:
        failed = sum(answer.status >= 500 for answer in self.all)
        head = f"{len(self.all)} bodies, {self.left_out} left out for want of time, {failed} answers >= 500"
        return "\n".join([head, "the slowest:", *(answer.line() for answer in self.slowest)])


def values(size: int) -> dict[str, Callable[[], Any]]:
    """JSON values of about this size, by what is hostile about them."""
    share = size / BYTES
    most, containers = int(0.97 * BODY_VALUES * share), int(0.97 * BODY_CONTAINERS * share)
    return {
        "a long text": lambda: "x" * size,
        "letters outside ASCII": lambda: "é" * (size // 2),
        "a long list of numbers": lambda: [1] * most,
        "many fractions": lambda: [1.5] * most,
        "many texts": lambda: ["abcdefg"] * most,
        "many empty objects": lambda: [{}] * containers,
        "many objects": lambda: [{"a": 1}] * containers,
        "many lists": lambda: [[1]] * containers,
        "objects of six members": lambda: [
            {"a": 1, "b": "text", "c": 2.5, "d": None, "e": True, "f": 6} for _ in range(most // 7)
        ],
        "too many empty objects": lambda: [{}] * int(900_000 * share),
        "many keys": lambda: {f"key_{n}": n for n in range(int(480_000 * share))},
        "long keys": lambda: {"k" * 9_000 + str(n): n for n in range(int(1_000 * share))},
        "deep and wide": lambda: [nested(30)] * (containers // 30),
    }


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def task(**more: Any) -> dict[str, Any]:
    return {"handler": "echo", "queue": "light", **more}


def written(nodes: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"workflow_id": "slow", "nodes": nodes or {"a": task()}, **more}


def workflows() -> dict[str, Callable[[], Any]]:
    texts = ["ab" * 4_900] * 800
    return {
        "many nodes": lambda: written({f"n{n}": task() for n in range(10_000)}),
        "many unknown targets": lambda: written(
            {f"node_{n}": task(depends_on=[f"nod_{n}_{k}" for k in range(20)]) for n in range(10_000)}
        ),
        "many edges": lambda: written(
            {f"n{n}": task(depends_on=[f"n{k}" for k in range(max(0, n - 80), n)]) for n in range(9_000)}
        ),
        "many cycles": lambda: written({f"n{n}": task(next=f"n{n ^ 1}") for n in range(10_000)}),
        "many enum values": lambda: written(inputs={"x": {"type": "integer", "enum": list(range(900_000))}}),
        "many inputs": lambda: written(inputs={f"x{n}": {"type": "string", "default": "a"} for n in range(150_000)}),
        "many wrong inputs": lambda: written(inputs={f"x{n}": {"tipe": "strin"} for n in range(250_000)}),
        "long patterns": lambda: written(
            inputs={f"x{n}": {"type": "string", "pattern": r"\w{90}" + "x" * n} for n in range(400)}
        ),
        "patterns and long defaults": lambda: written(
            inputs={"x": {"type": "array", "items": {"type": "string", "pattern": PATTERN}, "default": texts}}
        ),
        "many templates": lambda: written(
            {f"n{n}": task(params={"x": "{{ inputs.a | lower ~ 'x' }}"}) for n in range(9_900)},
            inputs={"a": {"type": "string"}},
        ),
        "many wrong templates": lambda: written(
            {f"n{n}": task(params={f"p{k}": "{{ inputz.a | lowr }}" for k in range(20)}) for n in range(9_000)}
        ),
        "long expressions": lambda: written(
            {f"n{n}": task(params={"x": "{{ [" + "1," * 1_990 + "1] }}"}) for n in range(1_900)}
        ),
        "constants that grow": lambda: written(
            {f"n{n}": task(params={"x": "{{ 'aaaa'" + " | replace('a', 'aaaa')" * 6 + " }}"}) for n in range(9_000)}
        ),
        "many unknown fields": lambda: written(
            {f"n{n}": task(**{f"f{k}": 1 for k in range(60)}) for n in range(9_000)}
        ),
        "many unknown parameters": lambda: written(
            {f"n{n}": task(params={f"p{k}": 1 for k in range(50)}, handler="raster.validate") for n in range(9_000)}
        ),
        "one large parameter": lambda: written({"a": task(params={"x": [1] * 900_000})}),
    }


def parameters() -> dict[str, Callable[[], Any]]:
    return values(INPUT)


def special(path: str) -> dict[str, Callable[[], Any]]:
    """Bodies for one route: lists of what has a model, and many jobs at once."""
    if path.endswith("/jobs/batch"):
        return {f"a batch of {kind}": lambda make=make: {"jobs": make()} for kind, make in batches().items()}  # type: ignore[misc]
    if path.endswith("/task-result"):
        result = {"task_id": "a", "lease_epoch": 1, "status": "completed"}
        wrong = {"kind": "blob", "zone": 1, "container": 2, "path": 3, "size_bytes": "x"}
        records = [{"records": [record] * 60_000} for record in ({}, {"kind": "unknown"}, wrong)]
        kinds: dict[str, Callable[[], list[Any]]] = {
            f"records {n}": partial(list, [result | more]) for n, more in enumerate(records)
        }
        kinds["warnings"] = lambda: [result | {"warnings": [{"code": 1, "message": 2}] * 50}] * 1_000
        kinds["unknown members"] = lambda: [result | {f"m{n}": 1 for n in range(90)}] * 1_000
        return {kind: lambda make=make: {"worker_id": "a" * 32, "results": make()} for kind, make in kinds.items()}  # type: ignore[misc]
    if path.endswith("/register"):
        handlers = [{"handler": 1, **{f"m{n}": 1 for n in range(90)}}] * 2_000
        return {"handlers": lambda: {"worker_id": "a" * 32, "queues": ["q"], "slots": 1, "handlers": handlers}}
    return {}


def batches() -> dict[str, Callable[[], list[Any]]]:
    def jobs(count: int = 1_000, **more: Any) -> Callable[[], list[Any]]:
        return lambda: [{"workflow_id": "under_test", **more}] * count

    return {
        "unknown parameters": jobs(input_params={f"name_{n}": 1 for n in range(300)}),
        "unknown members": jobs(**{f"name_{n}": 1 for n in range(90)}),
        "wrong values": jobs(version="x", priority=-1, correlation_id={}, fairness_key=[], callback_url=1),
        "numbers": lambda: [1] * 1_000,
        "unknown workflows": lambda: [{"workflow_id": f"under_tes{n}"} for n in range(1_000)],
        "good jobs": jobs(input_params={"items": [1] * 700}),
        "good texts": jobs(input_params={"items": "x" * 9_000}),
        "large jobs": jobs(9, input_params={"items": [[1]] * 20_000}),
        "bad callbacks": jobs(callback_url="http://127.0.0.1:1/"),
    }


def send_slow_bodies(
    api: Served, known: Mapping[str, list[str]], document: Mapping[str, Any], *, operations: str, deadline: float
) -> Answers:
    answers = Answers()
    client = api.client(*Scope, name="slow")
    client.timeout = httpx.Timeout(10 * MOST_SECONDS)
    for _ in range(2):  # the first answers load what all others share
        client.post("/api/v1/workflows/validate", content=orjson.dumps(written()), headers={"Content-Type": JSON})
    for method, path, media_type, kind, body in bodies(document, known):
        if not re.search(operations, path):
            continue
        if time.monotonic() > deadline:
            answers.left_out += 1
            continue
        content = body()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        try:
            status = client.request(method, path, content=content, headers={"Content-Type": media_type}).status_code
        except httpx.TransportError:
            status = NO_ANSWER
        spent, spent_cpu = (time.perf_counter() - begun) * 1000, (time.process_time() - begun_cpu) * 1000
        answers.all.append(Answer(f"{method} {_short(path, known)}", kind, len(content), spent, spent_cpu, status))
    return answers


Body = tuple[str, str, str, str, Callable[[], bytes]]


def bodies(document: Mapping[str, Any], known: Mapping[str, list[str]]) -> Iterator[Body]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                continue
            place = re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], ["unknown"])[0], path)
            verb = method.upper()
            if YAML in operation["requestBody"]["content"]:
                yield from _workflow_bodies(verb, place)
                continue
            if JSON not in operation["requestBody"]["content"]:
                yield verb, place, "application/octet-stream", "bytes", lambda: b"x" * 1_000_000
                continue
            for kind, make in {**values(BYTES), "just small": lambda: [[1]] * (SMALL_BODY_BYTES // 5)}.items():
                yield verb, place, JSON, kind, lambda make=make: orjson.dumps(make())  # type: ignore[misc]
            for kind, make in special(place).items():
                yield verb, place, JSON, kind, lambda make=make: orjson.dumps(make())  # type: ignore[misc]
            fields = _fields(document, operation["requestBody"]["content"][JSON]["schema"])
            for kind, make in parameters().items() if fields else ():
                for name in fields:
                    yield verb, place, JSON, f"{kind} as {name}", _filled(name, make, known)


def _workflow_bodies(verb: str, place: str) -> Iterator[Body]:
    for kind, make in workflows().items():
        yield verb, place, JSON, kind, lambda make=make: orjson.dumps(make())  # type: ignore[misc]
        # JSON is YAML too, and has lines and columns then.
        yield verb, place, YAML, f"{kind}, as text", lambda make=make: orjson.dumps(make())[:FILE_BYTES]  # type: ignore[misc]
    yield verb, place, YAML, "many lines", lambda: b"a: 1\n" * (FILE_BYTES // 5)
    yield verb, place, YAML, "a long list", lambda: b"- a\n" * (FILE_BYTES // 4)
    yield verb, place, YAML, "open brackets", lambda: b"[" * FILE_BYTES


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The members of a body that hold whatever the caller likes."""
    for choice in schema.get("anyOf", [schema]):
        name = str(choice.get("$ref", "")).rpartition("/")[2]
        members = document["components"]["schemas"].get(name, {}).get("properties", {})
        free = [member for member, rules in members.items() if _is_free(rules)]
        if members:
            return free
    return []


def _is_free(rules: Mapping[str, Any]) -> bool:
    return any(
        "type" not in choice or (choice.get("type") in ("object", "array") and "properties" not in choice)
        for choice in rules.get("anyOf", [rules])
        if "$ref" not in choice
    )


def _filled(name: str, make: Callable[[], Any], known: Mapping[str, list[str]]) -> Callable[[], bytes]:
    def body() -> bytes:
        value = make()
        if name == "input_params" and not isinstance(value, dict):
            value = {"items": value}  # an input that the workflow has
        return orjson.dumps({"workflow_id": "under_test", name: value})

    return body


def _short(path: str, known: Mapping[str, list[str]]) -> str:
    for name, found in known.items():
        for one in found:
            path = re.sub(rf"/{re.escape(one)}(?=/|$)", f"/{{{name}}}", path)
    return path.removeprefix("/api/v1")

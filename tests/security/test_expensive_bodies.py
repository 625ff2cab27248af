"""What a body within the limits may cost: values, reports and checks are counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import orjson
import pytest
from annotated_types import MaxLen
from pydantic import BaseModel, FailFast, ValidationError

from rmhdag.api import member_counts
from rmhdag.api.application import all_routes
from rmhdag.api.member_counts import MOST_UNKNOWN, Shape, refuse_many_members, shape_of
from rmhdag.api.problems import Problem
from rmhdag.api.strict_json import MOST_CONTAINERS, MOST_VALUES, parse
from rmhdag.models.api.assets import WorkOrderBody
from rmhdag.models.api.jobs import RerunRequest
from rmhdag.models.api.worker_calls import RegisterWorker, ReportTasks
from rmhdag.models.limits import BATCH_BYTES, SMALL_BODY_BYTES
from rmhdag.models.references import HIDDEN, SECRET_MEDIA_TYPE, Reference, hide_secrets
from rmhdag.models.scopes import Scope
from rmhdag.workflow import inputs
from rmhdag.workflow.definition import InputDefinition
from rmhdag.workflow.patterns import PatternWork
from rmhdag.workflow.problems import MAX_PROBLEMS
from tests.api.serving import ServedHere, served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

JSON = {"Content-Type": "application/json"}
# A list that may hold more makes no more than one report.
MOST_REPORTED = 100


@pytest.fixture
def api(platform: Platform) -> Iterator[ServedHere]:
    with served(platform.dsn) as made:
        yield made


@pytest.mark.parametrize("empty", [b"{}", b"[]", b"{ }", b"[\n]"])
def test_empty_lists_and_objects_count(empty: bytes) -> None:
    body = b"[" + b",".join([empty] * (MOST_CONTAINERS - 1)) + b"]"
    assert len(parse(body)) == MOST_CONTAINERS - 1
    with pytest.raises(Problem, match=f"{MOST_CONTAINERS} lists and objects") as refusal:
        parse(b"[" + body + b"]")
    assert refusal.value.status_code == 413


@pytest.mark.parametrize("text", ["[{,", 'a"[{,', "\\", '\\"[{,', "[{,\\\\"])
def test_what_looks_like_values_in_a_text_is_none(text: str) -> None:
    body = orjson.dumps([text * (MOST_VALUES // len(text) + 1), {"key": text}])
    assert parse(body) == orjson.loads(body)


def test_a_list_where_an_object_is_due_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(value: Any, shape: Shape, *rest: Any, **more: Any) -> None:
        calls.append(1)
        refuse_many_members(value, shape, *rest, **more)

    monkeypatch.setattr(member_counts, "refuse_many_members", count)
    for model in (WorkOrderBody, RegisterWorker | None):
        member_counts.refuse_many_members([{}] * 10_000, shape_of(model))
    member_counts.refuse_many_members({"from_nodes": ["a"] * 1_000}, shape_of(RerunRequest))
    assert len(calls) <= 4


@pytest.mark.parametrize(
    ("value", "model", "pointer"),
    [
        ({"workflow_id": "w", "platform_refs": {f"r{n}": n for n in range(21)}}, WorkOrderBody, "/platform_refs"),
        ({"from_nodes": [{}] * 1_001}, RerunRequest, "/from_nodes"),
        ({"handlers": [{"aliases": [1] * 51}]}, RegisterWorker, "/handlers/0/aliases"),
    ],
)
def test_what_has_a_limit_is_counted_before_the_model_sees_it(value: Any, model: type[BaseModel], pointer: str) -> None:
    with pytest.raises(Problem, match="at most") as refusal:
        refuse_many_members(value, shape_of(model))
    assert [place.pointer for place in refusal.value.body.errors] == [pointer]


def test_long_lists_report_the_first_bad_item() -> None:
    records = [{"kind": "x"}] * 10_000
    result = {"task_id": "a", "lease_epoch": 1, "status": "completed", "records": records}
    with pytest.raises(ValidationError) as refusal:
        ReportTasks.model_validate({"worker_id": "a" * 32, "results": [result] * 3})
    assert refusal.value.error_count() <= MOST_REPORTED


def lists_and_objects(annotation: Any, metadata: tuple[Any, ...], where: str) -> Iterator[tuple[str, Any, list[Any]]]:
    """All that a model has, with what limits them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from lists_and_objects(arguments[0], (*metadata, *arguments[1:]), where)
        return
    if origin in (list, dict):
        yield where, annotation, [inner for one in metadata for inner in getattr(one, "metadata", [one])]
    for inner in arguments:
        yield from lists_and_objects(inner, metadata if origin not in (list, dict) else (), where)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from lists_and_objects(field.annotation, tuple(field.metadata), f"{annotation.__name__}.{name}")


def test_every_body_makes_few_reports_whatever_is_in_it() -> None:
    seen = {}
    for route in all_routes().strict:
        if route.body_field is not None:
            for where, annotation, limits in lists_and_objects(route.body_field.field_info.annotation, (), route.path):
                if get_args(annotation)[-1] is not Any:
                    most = next((one.max_length for one in limits if isinstance(one, MaxLen)), None)
                    fails_fast = any(isinstance(one, FailFast) for one in limits)
                    seen[where] = most is not None and (most <= MOST_REPORTED or fails_fast)
    assert len(seen) > 10
    assert [where for where, is_bounded in seen.items() if not is_bounded] == []


@pytest.mark.parametrize("path", ["/api/v1/keys", "/api/v1/callback-endpoints", "/api/v1/jobs/j/cancel"])
def test_bodies_are_small_where_nothing_large_is_sent(api: ServedHere, path: str) -> None:
    client = api.client(*Scope)
    body = b'{"name":"x"}' + b" " * SMALL_BODY_BYTES

    def in_pieces() -> Iterator[bytes]:
        yield body[:1_000]
        yield body[1_000:]

    for content in (body, in_pieces()):
        answer = client.post(path, content=content, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        assert str(SMALL_BODY_BYTES) in answer.json()["detail"]


@pytest.mark.parametrize(
    "item",
    [
        {"workflow_id": "under_test", "input_params": {f"unknown_{n}": 1 for n in range(300)}},
        {"workflow_id": "under_test", "input_params": {"n": ["x" * 100_000]}},
        {"workflow_id": "under_test", **{f"unknown_{n}": 1 for n in range(90)}},
        {"workflow_id": 1, "version": "x", "priority": -1, "correlation_id": {}, "fairness_key": []},
    ],
    ids=["unknown parameters", "large parameters", "unknown members", "wrong values"],
)
def test_jobs_of_a_batch_share_what_is_reported(platform: Platform, api: ServedHere, item: dict[str, Any]) -> None:
    declared = {"n": InputDefinition(type="integer")}
    platform.register(workflow(a=task()).model_copy(update={"inputs": declared}))
    count = 80
    answer = api.client(Scope.SUBMIT).post("/api/v1/jobs/batch", json={"jobs": [item] * count})
    assert answer.status_code == 200
    assert answer.json()["refused"] == count
    reported = [len(one["problem"]["errors"]) for one in answer.json()["jobs"]]
    assert all(reported)
    assert sum(reported) <= MAX_PROBLEMS + MOST_UNKNOWN + 10 * count


def test_jobs_of_a_batch_share_the_work_for_patterns(
    platform: Platform, api: ServedHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is checked in a process of its own."""
    declared = InputDefinition(type="string", pattern="^[ab]*a[ab]{40}c?$|^x[ab]*$")
    platform.register(workflow(a=task()).model_copy(update={"inputs": {"text": declared}}))
    tried: list[str] = []
    matches = PatternWork.matches

    def note(self: PatternWork, pattern: str, text: str) -> bool:
        answer = matches(self, pattern, text)
        tried.append(text)
        return answer

    monkeypatch.setattr(PatternWork, "matches", note)
    jobs = [{"workflow_id": "under_test", "input_params": {"text": f"x{'ab' * 100}{'b' * n}"}} for n in range(100)]
    answer = api.client(Scope.SUBMIT).post("/api/v1/jobs/batch", json={"jobs": jobs})
    assert answer.json()["created"] == 100
    # Twice, for the call is begun again with what was checked elsewhere.
    assert 0 < len(tried) <= 2 * 40


def test_many_unknown_parameters_need_no_process(
    platform: Platform, api: ServedHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {"n": InputDefinition(type="integer")}
    platform.register(workflow(a=task()).model_copy(update={"inputs": declared}))
    monkeypatch.setattr(api.checks, "check", lambda *_, **__: pytest.fail("a process was asked"))
    params = {f"unknown_{n}": n for n in range(20_000)}
    body = {"workflow_id": "under_test", "input_params": params}
    answer = api.client(Scope.SUBMIT).post("/api/v1/jobs", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameters")


def test_defaults_do_not_make_a_small_batch_large(platform: Platform, api: ServedHere) -> None:
    declared = InputDefinition(type="string", default="x" * 60_000)
    platform.register(workflow(a=task()).model_copy(update={"inputs": {"text": declared}}))
    jobs = [{"workflow_id": "under_test"}] * (BATCH_BYTES // 60_000 + 1)
    answer = api.client(Scope.SUBMIT).post("/api/v1/jobs/batch", json={"jobs": jobs})
    assert (answer.status_code, answer.json()["code"]) == (413, "batch_too_large")
    assert platform.count("dag_jobs") == 0


def test_values_without_secrets_are_not_copied() -> None:
    plain = {"items": [{"a": 1}] * 3}
    assert hide_secrets(plain) is plain
    secret = Reference("0" * 64, 7, SECRET_MEDIA_TYPE).as_json()
    assert hide_secrets({"items": [{"a": secret}]}) == {"items": [{"a": HIDDEN}]}


def test_parameters_that_stay_as_they_are_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    monkeypatch.setattr(inputs, "check_json", lambda value, **_: looks.append(value))
    declared: inputs.Declared = {"items": {"type": "array"}, "n": {"type": "integer", "default": 3}}
    given = {"items": [1, 2], "n": 7}
    assert inputs.complete_declared(declared, given) == given
    assert len(looks) == 1
    assert inputs.complete_declared(declared, {"items": [1]}) == {"items": [1], "n": 3}
    assert len(looks) == 3, "with its defaults it may be too large"

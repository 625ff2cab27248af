"""Values that are too large for a row: stored apart once, within limits, and one job's limits are its own affair."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from rmhdag.models.limits import INLINE_BYTES, MB
from rmhdag.models.references import RESERVED_KEY
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store import payloads
from rmhdag.worker.references import resolve_references
from rmhdag.workflow.definition import FanOutNode, InputDefinition, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import fan, spec, task, workflow
from tests.orchestrator.platform import Platform


def with_inputs(definition: WorkflowDefinition, workflow_id: str = "under_test", **types: Any) -> WorkflowDefinition:
    declared = {name: InputDefinition(type=kind) for name, kind in types.items()}
    return definition.model_copy(update={"workflow_id": workflow_id, "inputs": declared})


def resolved(platform: Platform, params: Any) -> Any:
    """As the handler gets them."""
    read = partial(payloads.read_text, platform.conn, "default")
    return orjson.loads(orjson.dumps(resolve_references(params, read)))


def largest(platform: Platform, table: str, column: str) -> int:
    row = platform.conn.execute(f"SELECT max(length({column}::text)) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def payload_count(platform: Platform) -> int:
    row = platform.conn.execute("SELECT count(DISTINCT sha256) FROM dag_payloads").fetchone()
    assert row is not None
    return int(row[0])


GEOMETRY = {"type": "Polygon", "coordinates": [[[n / 7, n / 3] for n in range(45_000)]]}


def test_large_parameters_are_stored_once_and_reach_the_handler(platform: Platform) -> None:
    params = {"geometry": "{{ inputs.geometry }}", "same": "{{ inputs.geometry }}", "n": 3}
    definition = with_inputs(
        workflow(first=task("second", params=params), second=task(params=params)), geometry="object"
    )
    assert len(orjson.dumps(GEOMETRY)) > MB
    platform.submit(definition, {"geometry": GEOMETRY})
    seat = platform.seat()
    for _ in range(2):
        seat.work()
        (claimed,) = platform.claim()
        assert len(orjson.dumps(claimed.params)) < 1_000
        assert resolved(platform, claimed.params) == {"geometry": GEOMETRY, "same": GEOMETRY, "n": 3}
        platform.succeed(claimed)
    assert payload_count(platform) == 1
    assert largest(platform, "dag_node_states", "input_params") < 1_000


def test_just_below_the_inline_limit_nothing_is_stored(platform: Platform) -> None:
    definition = with_inputs(workflow(only=task(params={"text": "{{ inputs.text }}"})), text="string")
    for letters, count in ((INLINE_BYTES - 20, 0), (INLINE_BYTES + 1, 1)):
        platform.submit(definition, {"text": "x" * letters})
        seat = platform.seat()
        seat.work()
        (claimed,) = platform.claim()
        assert payload_count(platform) == count
        assert resolved(platform, claimed.params) == {"text": "x" * letters}
        platform.succeed(claimed)
        seat.work()


def test_many_small_parameters_go_as_one(platform: Platform) -> None:
    params = {f"p{n}": "{{ inputs.text }}" for n in range(50)}
    definition = with_inputs(workflow(only=task(params=params)), text="string")
    platform.submit(definition, {"text": "x" * 3_000})
    platform.seat().work()
    (claimed,) = platform.claim()
    assert claimed.params.keys() == {RESERVED_KEY}
    assert resolved(platform, claimed.params) == {f"p{n}": "x" * 3_000 for n in range(50)}


def test_children_share_what_is_the_same(platform: Platform) -> None:
    definition = with_inputs(
        fan(params={"geometry": "{{ inputs.geometry }}", "at": "{{ index }}"}), items="array", geometry="object"
    )
    platform.submit(definition, {"items": [0] * 250, "geometry": GEOMETRY})
    platform.seat().work()
    claimed = platform.claim(250)
    assert len(claimed) == 250
    assert payload_count(platform) == 1
    assert largest(platform, "dag_node_states", "input_params") < 1_000
    assert resolved(platform, claimed[-1].params)["geometry"] == GEOMETRY
    assert platform.count("dag_payload_uses") == 1


def test_children_with_different_parameters_have_their_own(platform: Platform) -> None:
    items = [f"{n:03}" + "x" * 70_000 for n in range(100)]
    job_id = platform.submit(fan(), {"items": items})
    platform.finish(platform.seat(), {"n": 1})
    assert platform.job(job_id)["status"] == "completed"
    assert payload_count(platform) == 100
    assert len(platform.nodes(job_id)) == 103


# Limits while values are made.


def test_a_list_that_is_named_twenty_times(platform: Platform) -> None:
    params: dict[str, Any] = {"few": 1, "deep": {"many": ["{{ inputs.items }}"] * 20}}
    definition = workflow(only=task(params=params))
    numbers = ["x" * 1_000] * 1_000
    failed = platform.submit(definition, {"items": numbers})
    other = platform.submit(definition.model_copy(update={"workflow_id": "other"}), {"items": numbers[:10]})
    platform.finish(platform.seat())
    job = platform.job(failed)
    assert job["status"] == "failed"
    assert "node 'only' failed: the parameters cannot be resolved: with 'deep'" in job["error_message"]
    assert "larger than 16 MB" in job["error_message"]
    assert platform.job(other)["status"] == "completed"


def test_expressions_do_not_multiply_either(platform: Platform) -> None:
    forty = "[" + ", ".join(["inputs.items"] * 40) + "]"
    job_id = platform.submit(workflow(only=task(params={"all": f"{{{{ {forty} }}}}"})), {"items": ["x" * 1_000] * 500})
    platform.finish(platform.seat())
    assert "with 'all' the object becomes larger than 16 MB" in platform.job(job_id)["error_message"]


def test_a_child_whose_parameters_are_too_large_fails_alone(platform: Platform) -> None:
    params = {"value": ["{{ inputs.items }}"] * 20}
    definition = workflow(split=FanOutNode(source="{{ [1, 2] }}", task=spec(params)))
    job_id = platform.submit(definition, {"items": ["x" * 1_000] * 1_000})
    platform.finish(platform.seat())
    nodes = platform.nodes(job_id)
    assert (nodes["split__0"], nodes["split__1"], platform.job(job_id)["status"]) == ("failed", "failed", "failed")


# Child jobs.


def calling(**params: Any) -> WorkflowDefinition:
    return with_inputs(workflow(sub=WorkflowNode(workflow="inner", params=params)), text="string", items="array")


def test_a_child_job_with_too_many_parameters_is_the_childs_failure(platform: Platform) -> None:
    """8 to 16 MB were within one limit and beyond another: that ended every orchestrator."""
    inner = with_inputs(workflow(only=task()), "inner", one="string", two="string")
    platform.register(inner)
    parent = platform.submit(calling(one="{{ inputs.text }}", two="{{ inputs.text }}"), {"text": "ü" * 2_500_000})
    other = platform.submit(with_inputs(workflow(only=task()), "other"))
    platform.finish(platform.seat())
    job = platform.job(parent)
    assert job["status"] == "failed"
    assert "larger than 8388608 bytes" in job["error_message"]
    assert platform.job(other)["status"] == "completed"


def test_a_definition_of_a_newer_version_is_the_childs_failure(platform: Platform) -> None:
    platform.register(with_inputs(workflow(only=task()), "inner"))
    platform.conn.execute(
        """UPDATE dag_workflows SET definition = definition || '{"of_the_future": 1}' WHERE workflow_id = 'inner'"""
    )
    parent = platform.submit(calling(), {})
    platform.finish(platform.seat())
    assert "workflow 'inner' version 1 cannot be read" in platform.job(parent)["error_message"]


def test_a_child_job_sees_large_parameters_and_its_row_is_small(platform: Platform) -> None:
    inner = fan(params={"item": "{{ item }}", "all": "{{ inputs.items }}"}).model_copy(update={"workflow_id": "inner"})
    platform.register(inner)
    items = ["x" * 1_000 for _ in range(1_500)]
    parent = platform.submit(calling(items="{{ inputs.items }}"), {"items": items})
    seat = platform.seat()
    seat.work()
    query = "SELECT length(input_params::text) FROM dag_jobs WHERE parent_job_id = %s"
    [(size,)] = platform.conn.execute(query, [parent]).fetchall()
    assert size < 1_000
    claimed = platform.claim()
    assert resolved(platform, claimed[0].params) == {"item": items[0], "all": items}
    seat.advance.owned.clear()
    platform.succeed(*claimed, output={"n": 1})
    platform.finish(seat, {"n": 1})
    assert platform.job(parent)["status"] == "completed"


# Results.


@pytest.mark.parametrize(("times", "is_apart"), [(1, False), (2, True)])
def test_large_members_of_a_result_are_stored_apart(platform: Platform, times: int, is_apart: bool) -> None:
    outputs = {f"copy{n}": "{{ inputs.items }}" for n in range(times)}
    items = ["x" * 1_000] * 800
    job_id = platform.submit(workflow(outputs, only=task()), {"items": items})
    platform.finish(platform.seat())
    result = platform.job(job_id)["result"]
    assert (RESERVED_KEY in result["copy0"]) is is_apart
    assert resolved(platform, result) == {f"copy{n}": items for n in range(times)}


def test_a_result_that_is_too_large_fails_its_job(platform: Platform) -> None:
    job_id = platform.submit(
        workflow({"all": ["{{ inputs.items }}"] * 20}, only=task()), {"items": ["x" * 1_000] * 1_000}
    )
    platform.finish(platform.seat())
    assert "the outputs of the workflow cannot be resolved: with 'all'" in platform.job(job_id)["error_message"]


def test_a_rerun_needs_the_payloads_of_the_job_before(platform: Platform) -> None:
    definition = with_inputs(workflow(only=task(params={"geometry": "{{ inputs.geometry }}"})), geometry="object")
    job_id = platform.submit(definition, {"geometry": GEOMETRY})
    seat = platform.seat()
    seat.work()
    platform.fail(*platform.claim())
    seat.work()
    again = rerun_job(platform.conn, plan_rerun_of(platform.conn, job_id), issued_by="ann").job_id
    query = "SELECT count(*) FROM dag_payload_uses WHERE holder = %s"
    assert platform.conn.execute(query, [again]).fetchone() == (1,)

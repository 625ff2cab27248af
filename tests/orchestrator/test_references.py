"""What looks like a reference is none, what is one is followed, and what it refers to may be gone."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rmhdag.models.limits import INLINE_BYTES
from rmhdag.models.references import RESERVED_KEY
from rmhdag.services.asset_commands import roll_back
from rmhdag.services.submissions import submit
from rmhdag.store import payloads
from rmhdag.store.poison import bury_job
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition, WorkflowNode
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.pruning import prune

LARGE = {"text": "x" * 70_000, "n": 5}


def output_of(platform: Platform, job_id: str, node_id: str) -> Any:
    query = "SELECT output FROM dag_node_states WHERE job_id = %s AND node_id = %s"
    [(output,)] = platform.conn.execute(query, [job_id, node_id]).fetchall()
    return output


def report_large(platform: Platform, seat: Seat, output: Any = LARGE) -> None:
    """As a worker does with what is too large for a row."""
    for claimed in platform.claim():
        stored = payloads.write_json(platform.conn, "default", claimed.job_id, orjson.dumps(output))
        platform.succeed(claimed, output=stored.as_json())
    seat.work()


def a_file(platform: Platform, kind: str) -> dict[str, Any]:
    """What a handler says of a file that it made; one of them has the very hash of a payload."""
    stored = payloads.write_json(platform.conn, "default", "another job", b'{"secret": 1}')
    return {"sha256": stored.sha256, "size_bytes": stored.size_bytes, "media_type": kind}


AGGREGATES: list[tuple[str, Any]] = [
    ("collect", lambda file: {"results": [file, file], "count": 2}),
    ("concat", lambda file: {"results": [], "count": 2}),
    ("sum", lambda file: {"total": 2 * file["size_bytes"], "count": 2}),
    ("merge", lambda file: {"result": file, "count": 2}),
    ("first", lambda file: {"result": file, "count": 2}),
    ("last", lambda file: {"result": file, "count": 2}),
]


@pytest.mark.parametrize("kind", ["image/tiff", "application/json"])
@pytest.mark.parametrize(("aggregation", "expected"), AGGREGATES)
def test_a_handler_may_describe_a_file(platform: Platform, aggregation: str, expected: Any, kind: str) -> None:
    file = a_file(platform, kind)
    job_id = platform.submit(fan(aggregation), {"items": [1, 2]})
    platform.finish(platform.seat(), file)
    assert platform.job(job_id)["error_message"] is None
    assert output_of(platform, job_id, "join") == expected(file)


@pytest.mark.parametrize("kind", ["image/tiff", "application/json"])
def test_a_described_file_goes_through_expressions_into_the_result(platform: Platform, kind: str) -> None:
    file = a_file(platform, kind)
    params = {"whole": "{{ nodes.made.output }}", "hash": "{{ nodes.made.output.sha256 }}"}
    definition = workflow({"file": "{{ nodes.made.output }}"}, made=task("used"), used=task(params=params))
    job_id = platform.submit(definition)
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim(), output=file)
    seat.work()
    (used,) = platform.claim()
    assert used.params == {"whole": file, "hash": file["sha256"]}
    platform.succeed(used)
    seat.work()
    assert platform.job(job_id)["result"] == {"file": file}


@pytest.mark.parametrize("params", [{"items": [{RESERVED_KEY: {}}]}, {"items": [[{"a": {RESERVED_KEY: 1}}]]}])
def test_the_reserved_key_is_refused_in_inputs(platform: Platform, params: dict[str, Any]) -> None:
    platform.register(workflow(only=task()))
    with pytest.raises(InvalidInputs, match="reserves for itself"):
        submit(platform.conn, "under_test", params, submitted_by="ann")


@pytest.mark.parametrize("aggregation", ["concat", "sum", "merge"])
def test_a_missing_payload_fails_its_fan_in_and_nobody_else(platform: Platform, aggregation: str) -> None:
    seat = platform.seat()
    broken = platform.submit(fan(aggregation), {"items": [1, 2]})
    seat.work()
    report_claimed = platform.claim()
    other = platform.submit(fan(aggregation), {"items": [1]})
    for claimed in report_claimed:
        stored = payloads.write_json(platform.conn, "default", claimed.job_id, orjson.dumps(LARGE))
        platform.succeed(claimed, output=stored.as_json())
    platform.conn.execute("DELETE FROM dag_payloads")
    platform.finish(seat, {"n": 1})
    job = platform.job(broken)
    assert job["status"] == "failed"
    assert "its output is gone: there is no payload" in job["error_message"]
    assert platform.job(other)["status"] == "completed"


def test_an_unexpected_error_fails_its_fan_in(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan("merge"), {"items": [1]})
    seat.work()
    (claimed,) = platform.claim()
    stored = payloads.write_json(platform.conn, "default", job_id, orjson.dumps(LARGE))
    platform.conn.execute("UPDATE dag_payloads SET data = 'not JSON'")
    platform.succeed(claimed, output=stored.as_json())
    seat.work()
    assert platform.job(job_id)["status"] == "failed"
    assert "cannot be aggregated: JSONDecodeError" in platform.job(job_id)["error_message"]


def test_a_node_that_reads_a_missing_payload_fails_by_its_template(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(made=task("used"), used=task(params={"n": "{{ nodes.made.output.n }}"})))
    seat.work()
    (claimed,) = platform.claim()
    stored = payloads.write_json(platform.conn, "default", job_id, orjson.dumps(LARGE))
    platform.conn.execute("DELETE FROM dag_payloads")
    platform.succeed(claimed, output=stored.as_json())
    seat.work()
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "node 'used' failed: the parameters cannot be resolved" in job["error_message"]


def test_a_large_fan_in_is_looked_into_after_a_change_of_owner(platform: Platform) -> None:
    definition = fan("collect")
    after = task(params={"first": "{{ nodes.join.output.results[0].n }}"}, all_of=("join", "approve"))
    nodes = {**definition.nodes, "approve": task(), "late": after}
    job_id = platform.submit(definition.model_copy(update={"nodes": nodes}), {"items": list(range(100))})
    seat = platform.seat()
    seat.work()
    held = []
    while claimed := platform.claim():
        held += [one for one in claimed if one.node_id == "approve"]
        platform.succeed(*(one for one in claimed if one.node_id != "approve"), output={"n": 7, "text": "x" * 1_000})
        seat.work()
    assert RESERVED_KEY in output_of(platform, job_id, "join")
    seat.advance.owned.clear()
    platform.succeed(*held)
    seat.work()
    (late,) = platform.claim()
    assert late.params == {"first": 7}


# Who needs a payload.


def uses(platform: Platform, holder: str) -> set[str]:
    query = "SELECT sha256 FROM dag_payload_uses WHERE namespace = 'default' AND holder = %s"
    return {row[0] for row in platform.conn.execute(query, [holder])}


def stored_hashes(platform: Platform) -> set[str]:
    return {row[0] for row in platform.conn.execute("SELECT DISTINCT sha256 FROM dag_payloads")}


def test_a_gathered_payload_needs_what_it_refers_to(platform: Platform) -> None:
    job_id = platform.submit(fan("collect"), {"items": list(range(500))})
    seat = platform.seat()
    seat.work()
    while platform.count("dag_queue_messages"):
        report_large(platform, seat)
    gathered = output_of(platform, job_id, "join")[RESERVED_KEY]["sha256"]
    (one,) = uses(platform, f"payload:{gathered}")
    assert uses(platform, job_id) == {gathered, one} == stored_hashes(platform)
    assert payloads.job_refers_to(platform.conn, "default", job_id, one)
    assert not payloads.job_refers_to(platform.conn, "default", "another", one)


def inner(**nodes: Any) -> WorkflowDefinition:
    return workflow(**nodes).model_copy(
        update={"workflow_id": "inner", "inputs": {"given": InputDefinition(type="array")}}
    )


def test_a_parent_needs_what_its_child_has_made(platform: Platform) -> None:
    platform.register(inner(only=task()))
    parent = platform.submit(workflow(sub=WorkflowNode(workflow="inner")))
    seat = platform.seat()
    seat.work()
    report_large(platform, seat)
    assert platform.job(parent)["status"] == "completed"
    assert uses(platform, parent) == stored_hashes(platform) != set()


def test_a_child_needs_what_it_is_given(platform: Platform) -> None:
    platform.register(inner(only=task(params={"given": "{{ inputs.given }}"})))
    parent = workflow(made=task("sub"), sub=WorkflowNode(workflow="inner", params={"given": "{{ nodes.made.output }}"}))
    job_id = platform.submit(parent)
    seat = platform.seat()
    seat.work()
    report_large(platform, seat, {"large": "y" * 9_000_000})
    query = "SELECT job_id, input_params FROM dag_jobs WHERE parent_job_id = %s"
    [(child, params)] = platform.conn.execute(query, [job_id]).fetchall()
    assert params["given"][RESERVED_KEY]["size_bytes"] > 9_000_000
    assert uses(platform, child) == stored_hashes(platform) != set()
    (task_of_child,) = platform.claim()
    assert task_of_child.params == params


def test_a_child_that_is_not_made_after_all_needs_nothing(platform: Platform) -> None:
    """Another orchestrator has taken the parent before the child's row is written."""
    platform.register(inner(only=task(params={"given": "{{ inputs.given }}"})))
    given = {"given": ["{{ nodes.made.output.large }}"] * 2}
    job_id = platform.submit(workflow(made=task("sub"), sub=WorkflowNode(workflow="inner", params=given)))
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    platform.succeed(claimed, output={"large": ["y" * (INLINE_BYTES - 1_000)]})
    heir = platform.seat()
    platform.conn.execute("UPDATE dag_jobs SET owner_id = %s, owner_epoch = owner_epoch + 1", [heir.me])
    seat.advance.run_once(whole_inbox=True)
    assert platform.count("dag_jobs") == 1
    assert platform.conn.execute("SELECT DISTINCT holder FROM dag_payload_uses").fetchall() == [(job_id,)]


@pytest.mark.parametrize("ends_first", ["parent", "child"])
def test_what_a_child_is_given_stays_as_long_as_the_child(platform: Platform, ends_first: str) -> None:
    """It was stored as its parent's. The parent may end and be deleted first; while it is there, so is its child."""
    platform.register(inner(only=task(params={"given": "{{ inputs.given }}"})))
    given = {"given": ["{{ nodes.made.output.large }}"] * 2}
    parent = platform.submit(
        workflow(made=task("sub"), sub=WorkflowNode(workflow="inner", params=given, next=("last",)), last=task())
    )
    seat = platform.seat()
    seat.work()
    value = ["y" * (INLINE_BYTES - 1_000)]
    platform.succeed(*platform.claim(), output={"large": value})
    seat.work()
    (of_child,) = platform.claim()
    child, (digest,) = of_child.job_id, stored_hashes(platform)
    assert uses(platform, parent) == uses(platform, child) == {digest}
    if ends_first == "parent":
        bury_job(platform.conn, seat.me, parent, 1, "default", "by force")
    else:
        platform.succeed(of_child)
        seat.work()
    platform.conn.execute("UPDATE dag_payloads SET created_at = created_at - interval '9 days'")
    let_it_be_old(platform, parent if ends_first == "parent" else child)
    assert prune(platform).get("dag_jobs", 0) == (1 if ends_first == "parent" else 0)
    assert payloads.read_json(platform.conn, "default", digest) == [value] * 2
    if ends_first == "parent":
        platform.succeed(of_child)
        seat.work()
    else:
        platform.finish(seat)
    let_it_be_old(platform, parent, child)
    prune(platform)
    assert (platform.count("dag_jobs"), stored_hashes(platform)) == (0, set())


def let_it_be_old(platform: Platform, *job_ids: str) -> None:
    statement = "UPDATE dag_jobs SET completed_at = completed_at - interval '100 days' WHERE job_id = ANY(%s)"
    platform.conn.execute(statement, [list(job_ids)])


def test_a_payload_that_is_written_again_is_kept_for_another_day(platform: Platform) -> None:
    conn = platform.conn
    stored = payloads.write_json(conn, "default", "one", orjson.dumps(LARGE))
    conn.execute("UPDATE dag_payloads SET created_at = clock_timestamp() - interval '3 days'")
    payloads.write_json(conn, "default", "two", orjson.dumps(LARGE))
    query = "SELECT count(*) FROM dag_payloads WHERE created_at > clock_timestamp() - interval '1 hour'"
    assert conn.execute(query).fetchone() == (1,)
    assert uses(platform, "one") == uses(platform, "two") == {stored.sha256}


def test_a_revision_needs_what_its_outputs_refer_to(platform: Platform) -> None:
    """So does a later one that rolls back to it; both outlive the job."""
    made = raster_workflow().model_copy(update={"outputs": {"all": "{{ nodes.one.output }}"}})
    platform.register(made)
    seat = platform.seat()
    asset_id = str(place_order(platform.conn).request.asset_id)
    seat.work()
    report_large(platform, seat)
    place_order(platform.conn, input_params={"n": 2})
    seat.work()
    platform.finish(seat, {"small": 1})
    assert roll_back(platform.conn, "default", asset_id, 1, issued_by="ann") == 3
    held = {revision: uses(platform, f"asset:{asset_id}/{revision}") for revision in (1, 2, 3)}
    assert held == {1: stored_hashes(platform), 2: set(), 3: stored_hashes(platform)}

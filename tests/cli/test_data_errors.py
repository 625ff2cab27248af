"""Errors, warnings and retries on the command line, local and remote: whoever waits or looks later sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.live_view import PlainLines, draw
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.scopes import Scope
from rmhdag.models.states import NodeStatus
from rmhdag.views.jobs import find_job
from rmhdag.views.overviews import read_overview
from rmhdag.workflow.definition import FanOutNode, RetryRule, WorkflowDefinition, WorkflowNode
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.engine.definitions import AT_ONCE, fan, spec, task, workflow
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_data_errors import cause, fail, succeed, warning

HOURS = RetryRule(max_attempts=3, backoff="none", initial_delay_seconds=3_600, jitter=0)


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.fixture(params=["near", "far"])
def cli(request: pytest.FixtureRequest, platform: Platform, call_cli: RunCli) -> Iterator[RunCli]:
    if request.param == "near":
        yield lambda *words, **more: call_cli(*words, RMHDAG_DATABASE_URL=platform.dsn)
        return
    with served(platform.dsn) as api:
        key = api.key(Scope.ADMIN, name="ada")
        yield lambda *words, **more: call_cli(*words, RMHDAG_URL=api.url, RMHDAG_KEY=key)


def retrying(platform: Platform, retry: RetryRule) -> str:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(retry=retry)))
    seat.work()
    for claimed in platform.claim():
        fail(platform, claimed, cause("STORAGE_UNAVAILABLE"))
    seat.work()
    return job_id


def test_a_node_that_is_tried_again_says_why(cli: RunCli, platform: Platform) -> None:
    job_id = retrying(platform, HOURS)
    shown = cli("job", job_id).stdout
    assert "Attempt 1 failed: a.tif names no CRS. Attempt 2 is due at 2" in shown
    waited = cli("job", job_id, "--wait", "--timeout", "0")
    assert waited.returncode == ExitCode.WAIT_TIMEOUT
    assert "one: attempt 1 of 3 failed: a.tif names no CRS; next try in " in waited.stderr
    node = cli("job", job_id, "--node", "one").stdout
    assert "STORAGE_UNAVAILABLE (service_unavailable): Nothing: the platform retries." in node


def test_a_node_in_its_next_attempt_says_why_there_is_one(cli: RunCli, platform: Platform) -> None:
    job_id = retrying(platform, AT_ONCE)
    waited = cli("job", job_id, "--wait", "--timeout", "0")
    assert "one: attempt 1 of 3 failed: a.tif names no CRS; trying again" in waited.stderr
    assert "one: dispatched attempt 2 of 3\n" in waited.stderr
    assert "Attempt 1 failed: a.tif names no CRS. Waiting for a free worker" in cli("job", job_id).stdout


def test_a_task_that_lost_its_worker_says_so_while_it_runs_again(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task()))
    seat.work()
    platform.claim()
    assert "lost" not in cli("job", job_id).stdout
    platform.conn.execute("UPDATE dag_node_states SET lease_losses = 1")
    assert "Its worker was lost once; the task is run again." in cli("job", job_id).stdout
    platform.conn.execute("UPDATE dag_node_states SET lease_losses = 2")
    assert "Its worker was lost 2 times; the task is run again." in cli("job", job_id).stdout


def test_plain_lines_say_why_a_node_starts_again(platform: Platform, capsys: pytest.CaptureFixture[str]) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task()))
    seat.work()
    row = find_job(platform.conn, "default", job_id)
    assert row is not None
    overview = read_overview(platform.conn, row, alive_seconds=10)
    lines = PlainLines()

    def show(status: NodeStatus, **columns: Any) -> str:
        node = overview.nodes[0].model_copy(update={"status": status, **columns})
        lines.show(overview.model_copy(update={"nodes": [node]}))
        return capsys.readouterr().err

    assert show(NodeStatus.DISPATCHED) == "one: dispatched\n"
    assert show(NodeStatus.RUNNING) == "one: running\n"
    assert show(NodeStatus.DISPATCHED, lease_losses=1) == (
        "one: its worker was lost; another worker takes over\none: dispatched\n"
    )
    assert show(NodeStatus.RUNNING, lease_losses=1) == "one: running\n"
    assert show(NodeStatus.DISPATCHED, lease_losses=1) == (
        "one: its worker returned it; it continues later or on another worker\none: dispatched\n"
    )
    failed = show(NodeStatus.FAILED, lease_losses=1, error_message="no luck", started_at=None)
    assert failed == "one: failed: no luck\n"


def test_the_live_view_shows_the_last_error_and_that_there_are_warnings(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(), two=task(retry=AT_ONCE)))
    seat.work()
    claimed = {one.node_id: one for one in platform.claim()}
    succeed(platform, claimed["one"], warning(count=2), warning("CRS_OVERRIDE"))
    fail(platform, claimed["two"], cause("STORAGE_UNAVAILABLE"))
    seat.work()
    row = find_job(platform.conn, "default", job_id)
    assert row is not None
    lines = draw(read_overview(platform.conn, row, alive_seconds=10), 20)
    assert "dispatched attempt 2 of 3 a.tif names no CRS" in lines[2]
    assert lines[-1] == "  ! 3 warnings: RASTER_EMPTY, CRS_OVERRIDE"
    assert len(draw(read_overview(platform.conn, row, alive_seconds=10), 3)) == 3


def test_warnings_are_shown_at_the_end_and_after_it(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(fan(), {"items": [1, 2]})
    seat.work()
    for claimed in platform.claim():
        succeed(platform, claimed, warning())
    platform.finish(seat)
    ended = cli("job", job_id, "--wait")
    assert ended.returncode == ExitCode.OK
    assert "2 warnings:\n  2 × RASTER_EMPTY: no pixel has data\n" in ended.stderr
    assert "\nwarning      2 × RASTER_EMPTY: no pixel has data\n" in cli("job", job_id).stdout
    facts = json.loads(cli("job", job_id, "--json").stdout)
    compare(facts, JSON_OBJECTS["job"])
    assert facts["warnings"] == [warning(count=2)]
    assert json.loads(cli("job", job_id, "--wait", "--json").stdout)["warnings"] == [warning(count=2)]
    assert "warning              2 × RASTER_EMPTY" in cli("job", job_id, "--node", "split").stdout
    assert json.loads(cli("job", job_id, "--node", "split__0", "--json").stdout)["warnings"] == [warning()]


def test_failed_children_are_named_with_their_items_and_errors(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    split = FanOutNode(source="{{ inputs.items }}", task=spec({"file": "{{ item }}"}), item_key="{{ item }}")
    job_id = platform.submit(workflow(files=split), {"items": [f"{number}.tif" for number in range(8)]})
    seat.work()
    for claimed in platform.claim():
        fail(platform, claimed, cause() | {"message": f"{claimed.params['file']} names\nno CRS"})
    seat.work()
    shown = cli("job", job_id)
    assert "\nfailed children of files\n  files__0 (0.tif): 0.tif names no CRS\n" in shown.stdout
    assert "  files__4 (4.tif): 4.tif names no CRS\n  … and 3 more\n" in shown.stdout
    assert "\ncause        CRS_MISSING (data_quality): Add it to the file" in shown.stdout
    waited = cli("job", job_id, "--wait")
    assert waited.returncode == ExitCode.FAILED
    assert "  files__0 (0.tif): 0.tif names no CRS\n" in waited.stderr
    assert "  CRS_MISSING (data_quality): Add it to the file" in waited.stderr
    assert f"  rmhdag logs {job_id} --node files__0\n" in waited.stderr


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        ("CRS_MISSING", ["--everything", "NAME=VALUE"]),
        ("INVALID_PARAMETER", ["NAME=VALUE"]),
        ("COG_TRANSLATE_FAILED", [""]),
    ],
)
def test_a_plain_retry_is_suggested_only_where_it_may_help(
    cli: RunCli, platform: Platform, code: str, commands: list[str]
) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task(retry=RetryRule(max_attempts=1))))
    seat.work()
    for claimed in platform.claim():
        fail(platform, claimed, cause(code))
    seat.work()
    expected = [f"rmhdag retry {job_id} {rest}".rstrip() for rest in commands]
    for words in (["job", job_id], ["job", job_id, "--wait"]):
        lines = [line.strip() for line in cli(*words).stderr.splitlines()]
        assert [line.split("  ")[0] for line in lines if line.startswith("rmhdag retry")] == expected


def test_the_next_command_leads_to_the_child_job_that_failed(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    platform.register(WorkflowDefinition(workflow_id="other", name="Other", nodes={"x": task()}))
    job_id = platform.submit(workflow(sub=WorkflowNode(workflow="other")))
    seat.work()
    for claimed in platform.claim():
        platform.fail(claimed)
    seat.work()
    query = "SELECT job_id FROM dag_jobs WHERE parent_job_id = %s"
    [child_id] = [row[0] for row in platform.conn.execute(query, [job_id])]
    told = cli("job", job_id, "--wait").stderr
    assert f"  rmhdag logs {child_id}\n" in told
    assert f"rmhdag logs {job_id}" not in told
    missing = platform.submit(workflow(sub=WorkflowNode(workflow="nowhere")).model_copy(update={"version": 2}))
    seat.work()
    told = cli("job", missing, "--wait").stderr
    assert f"  rmhdag logs {missing} --node sub\n" in told, "there is no child job to look at"


def test_an_asset_shows_the_warnings_of_what_is_served(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    platform.register(raster_workflow())
    asset_id = str(place_order(platform.conn).request.asset_id)
    seat.work()
    for claimed in platform.claim():
        succeed(platform, claimed, warning())
    seat.work()
    assert "\nwarning      1 × RASTER_EMPTY: no pixel has data\n" in cli("asset", asset_id).stdout
    facts = json.loads(cli("asset", asset_id, "--json").stdout)
    assert facts["current"]["warnings"] == [warning()]

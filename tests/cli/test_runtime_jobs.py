"""Jobs from the command line while the platform is up: real processes, real PostgreSQL."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.embedded import EmbeddedPostgres
from tests.api import running
from tests.cli.conftest import RunCli, plain_environment, start_cli
from tests.cli.running import SLOW, Up
from tests.cli.test_reference import ON_A_RUNNING_PLATFORM, compare
from tests.store.waiting import wait_until

FLAKY = running.FLAKY.replace("queue: light,", "queue: light-tasks,")
LARGE = running.LARGE.replace("queue: light}", "queue: light-tasks}")
APPROVAL = """\
workflow_id: release
name: Waits for somebody
nodes:
  ask: {type: approval, next: last}
  last: {handler: echo, queue: light-tasks}
"""


@pytest.fixture(scope="module")
def up(postgres: EmbeddedPostgres) -> Iterator[Up]:
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    dsn = postgres.create_database("runtime_jobs")
    (home / "slow.yaml").write_text(json.dumps(SLOW))
    (home / "flaky.yaml").write_text(FLAKY)
    (home / "release.yaml").write_text(APPROVAL)
    (home / "large.yaml").write_text(LARGE)
    running = Up(home, "--workflows", ".", RMHDAG_DATABASE_URL=dsn)
    yield running
    assert running.end() == 0
    postgres.drop_database("runtime_jobs")
    shutil.rmtree(home)


@pytest.fixture
def home(up: Up) -> Path:
    """Commands run where the platform does."""
    return up.home


@pytest.fixture(scope="module")
def key(up: Up) -> str:
    made = start_cli(up.home, "keys", "create", "ada", "--scope", "admin", **up.environment)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(params=["near", "far"])
def way(request: pytest.FixtureRequest) -> str:
    """Beside the database, or over HTTP to the API, with nothing that leads to the database."""
    return str(request.param)


@pytest.fixture
def environment(way: str, up: Up, key: str) -> dict[str, str]:
    if way == "near":
        return up.environment
    return {"RMHDAG_URL": up.facts["url"], "RMHDAG_KEY": key, "RMHDAG_HOME": str(up.home / "far")}


@pytest.fixture
def cli(environment: dict[str, str], call_cli: RunCli) -> RunCli:
    def call(*arguments: str | Path, stdin: str | bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
        return call_cli(*arguments, stdin=stdin, **(environment | more))

    return call


def submit(cli: RunCli, *arguments: str) -> str:
    done = cli("submit", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def show(cli: RunCli, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("job", job_id, "--json").stdout)
    return found


def node(facts: dict[str, Any], node_id: str) -> dict[str, Any]:
    return next((one for one in facts["nodes"] if one["node_id"] == node_id), {"status": None})


def events(cli: RunCli, job_id: str, event_type: str) -> list[dict[str, Any]]:
    told = json.loads(cli("job", job_id, "--events", "--json").stdout)["events"]
    return [event for event in told if event["event_type"] == event_type]


def wait_until_running(cli: RunCli, job_id: str, node_id: str) -> None:
    wait_until(lambda: node(show(cli, job_id), node_id)["status"] == "running")


def test_a_job_is_shown_until_it_completes(cli: RunCli) -> None:
    done = cli("submit", "hello_world", "name=Ada", "--wait")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"greeting": {"message": "Hello, Ada!"}}
    lines = done.stderr.splitlines()
    assert any(line.startswith("greet: completed") for line in lines)
    assert lines[-1].endswith("1 of 1 nodes completed")


def test_outputs_that_stand_apart_are_shown(cli: RunCli) -> None:
    text = "x" * 70_000
    done = cli("submit", "large", "--params", "-", "--wait", "--json", stdin=json.dumps({"text": text}))
    facts = json.loads(done.stdout)
    assert facts["result_data"]["first"] == {"echoed_params": {"text": text}}
    assert show(cli, facts["job_id"])["result_data"] == facts["result_data"]
    shown = json.loads(cli("job", facts["job_id"], "--node", "first", "--json").stdout)
    assert shown["output"] == {"echoed_params": {"text": text}}
    screen = cli("job", facts["job_id"]).stdout
    assert re.search(r"^first +\{1 member\}$", screen, re.M)
    assert screen.endswith("(--json shows outputs in full)\n")


def test_a_long_result_takes_a_line_per_output(cli: RunCli) -> None:
    facts = json.loads(cli("submit", "fan_out_test", f"items={','.join('a' * 20)}", "--wait", "--json").stdout)
    screen = cli("job", facts["job_id"]).stdout
    assert len(screen.splitlines()) < 30
    assert screen.endswith("(--json shows outputs in full)\n")


def test_three_items_make_eight_nodes(cli: RunCli) -> None:
    done = cli("submit", "fan_out_test", "--params", "-", "--wait", "--json", stdin='{"items": ["a", "b", "c"]}')
    facts = json.loads(done.stdout)
    assert facts["status"] == "completed"
    assert facts["node_counts"] == {"total": 8, "completed": 8}
    assert node(facts, "split")["children"] == {"total": 3, "completed": 3}
    assert facts["result_data"]["count"] == 3
    assert "split: completed 3/3" in done.stderr


def test_a_terminal_sees_a_line_per_node_and_a_bar(up: Up, environment: dict[str, str]) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", "submit", "fan_out_test", "--wait"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=follower,
            cwd=up.home,
            env=plain_environment(up.home) | environment | {"TERM": "xterm", "COLUMNS": "90", "LINES": "30"},
        )
        os.close(follower)
        shown = b""
        with suppress(OSError):  # how a terminal says that its last user has gone
            while piece := screen.read(65536):
                shown += piece
        assert process.wait(60) == 0
    pictures = shown.decode().split("\x1b[J")[:-1]
    for before, after in pairwise(pictures):
        lines = before.count("\x1b[K")
        assert after.startswith(f"\x1b[{lines}A"), "drawn over the picture before, however far the job was then"
    last = pictures[-1]
    assert "████████████████████ 3/3" in last
    assert last.count("completed") == 4


def test_a_failure_is_told_with_the_next_command_and_retried(cli: RunCli) -> None:
    done = cli("submit", "flaky", "--wait")
    assert (done.returncode, done.stdout) == (1, "")
    job_id = json.loads(cli("jobs", "--workflow", "flaky", "--limit", "1", "--json").stdout)["jobs"][0]["job_id"]
    assert f"  rmhdag logs {job_id} --node broken" in done.stderr
    assert "no luck today" in done.stderr
    assert f"  rmhdag retry {job_id} " in done.stderr
    assert "RuntimeError: no luck today" in cli("logs", job_id, "--node", "broken").stdout

    planned = json.loads(cli("retry", job_id, "fails=no", "--dry-run", "--json").stdout)
    assert set(planned["reused"]) == {"split", "gather"}
    again = cli("retry", job_id, "fails=no", "--wait", "--json")
    assert again.returncode == 0, again.stderr
    facts = json.loads(again.stdout)
    assert (facts["rerun_of"], facts["status"]) == (job_id, "completed")
    assert facts["result_data"] == {"fine": {"message": "Hello, world!"}}
    assert node(facts, "gather")["taken_over"]
    old = show(cli, job_id)
    assert (old["status"], old["reruns"]) == ("failed", [{"job_id": facts["job_id"], "status": "completed"}])
    running_only = cli("retry", job_id, "--node", "broken")
    assert running_only.returncode == 6
    assert f"rmhdag retry {job_id} --from broken" in running_only.stderr
    nothing = cli("retry", facts["job_id"])
    assert nothing.returncode == 6
    assert "--everything" in nothing.stderr


def test_labels_are_given_found_and_changed(cli: RunCli, way: str) -> None:
    job_id = submit(cli, "hello_world", "name=Ada", "--label", f"aoi=oslo {way}", "--label", "team=gis")
    assert show(cli, job_id)["labels"] == {"aoi": f"oslo {way}", "team": "gis"}
    assert re.search(rf"^labels +aoi=oslo {way} team=gis$", cli("job", job_id).stdout, re.M)
    listed = cli("jobs", "--label", f"aoi=oslo {way}", "--label", "team", "--json")
    assert [(line["job_id"], line["labels"]["team"]) for line in json.loads(listed.stdout)["jobs"]] == [(job_id, "gis")]
    assert f"aoi=oslo {way} team=gis" in cli("jobs", "--label", f"aoi=oslo {way}").stdout
    assert cli("label", job_id, "team-", "aoi=bergen", "--dry-run").stdout == "aoi=bergen\n"
    assert cli("jobs", "--ids", "--label", "aoi=bergen").stdout == ""
    done = cli("label", job_id, "team-", "aoi=bergen")
    assert (done.returncode, done.stdout) == (0, "aoi=bergen\n")
    assert done.stderr.startswith(f"job {job_id} has these labels now")
    assert "has these labels already" in cli("label", job_id, "aoi=bergen").stderr
    assert cli("jobs", "--ids", "--label", "aoi=bergen").stdout == f"{job_id}\n"
    assert cli("label", job_id, "aoi-").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["submit", "hello_world", "--label", "aoi"], "'aoi' is not a label"),
        (["submit", "hello_world", "--label", "Aoi=oslo"], "label 'Aoi': the key of a label has 1 to 63 characters"),
        (["submit", "hello_world", "--label", "a=1", "--label", "a=2"], "the label 'a' is given twice"),
        (["submit", "hello_world", *[f"--label=k{number}=" for number in range(17)]], "at most 16 labels"),
        (["jobs", "--label", "a b"], "--label 'a b': the key of a label has"),
        (["jobs", "--label", "aoi=\u202e"], "U+202E at position 1"),
        (["label", "0198f3c2", "aoi"], "'aoi' is not a change of a label"),
        (["label", "0198f3c2", "aoi=oslo", "aoi-"], "the label 'aoi' is put and removed"),
        (["label", "0198f3c2", "aoi=" + "x" * 201], "at most 200 characters"),
    ],
)
def test_bad_labels_are_told_before_anything_is_done(call_cli: RunCli, arguments: list[str], sentence: str) -> None:
    done = call_cli(*arguments)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr


def test_a_running_job_is_cancelled(cli: RunCli) -> None:
    job_id = submit(cli, "slow")
    wait_until_running(cli, job_id, "nap")
    facts = show(cli, job_id)
    assert node(facts, "last")["reason"]["reason_text"] == "Waiting for nap (running)."
    assert "why                  Waiting for nap (running)." in cli("job", job_id, "--node", "last").stdout
    assert "would stop 1 running nodes; 1 finished" in cli("cancel", job_id, "--dry-run").stderr
    asked = cli("cancel", job_id[:16], "--reason", "enough")
    assert asked.returncode == 0, asked.stderr
    assert "the job is being cancelled" in asked.stderr
    ended = cli("job", job_id, "--wait")
    assert ended.returncode == 7
    assert "cancelled by" in ended.stderr
    assert "enough" in ended.stderr
    again = cli("cancel", job_id)
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "the job is already cancelled")


def test_waiting_may_be_limited_and_interrupted_without_hurting_the_job(
    cli: RunCli, up: Up, environment: dict[str, str]
) -> None:
    late = cli("submit", "slow", "--wait", "--timeout", "0.2", "--json")
    assert late.returncode == 8
    job_id = json.loads(late.stdout)["job_id"]
    watcher = subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "job", job_id, "--wait"],
        stderr=subprocess.PIPE,
        cwd=up.home,
        env=plain_environment(up.home) | environment,
        text=True,
    )
    assert watcher.stderr is not None
    with watcher.stderr:
        assert watcher.stderr.readline().startswith("first: ")
        watcher.send_signal(signal.SIGINT)
        told = watcher.stderr.read()
    assert watcher.wait(30) == 130
    assert f"detached; job {job_id} continues" in told
    assert show(cli, job_id)["status"] == "running"
    assert cli("cancel", job_id).returncode == 0


def test_somebody_decides(cli: RunCli) -> None:
    job_id = submit(cli, "release")
    wait_until_running(cli, job_id, "ask")
    assert node(show(cli, job_id), "ask")["reason"]["reason_code"] == "waits_for_approval"
    waiting = json.loads(cli("approvals", "--json").stdout)["approvals"]
    assert (job_id, "ask") in [(one["job_id"], one["node_id"]) for one in waiting]
    assert f"rmhdag decide {job_id} ask approve" in cli("approvals").stdout
    assert cli("decide", job_id, "ask", "approve", "--reason", "looks good").returncode == 0
    assert cli("job", job_id, "--wait").returncode == 0
    assert cli("decide", job_id, "ask", "reject").returncode == 6
    assert job_id not in cli("approvals").stdout


def test_a_file_is_registered_and_its_new_content_takes_effect(cli: RunCli, up: Up, way: str) -> None:
    """In development mode, which `up` has written down."""
    path = up.home / "changing.yaml"
    for word in ("one", "two"):
        path.write_text(
            "workflow_id: changing\nname: Changing\nnodes:\n"
            f"  say: {{handler: echo, queue: light-tasks, params: {{word: {word}}}}}\n"
        )
        done = cli("submit", "changing.yaml", "--wait")
        assert json.loads(done.stdout) == {"say": {"echoed_params": {"word": word}}}
    refused = cli("submit", "changing.yaml", RMHDAG_DEVELOPMENT="0")
    assert refused.returncode == 0, "the same content again"
    path.write_text(path.read_text().replace("two", "three"))
    # Far away it is the server's mode that counts.
    assert cli("submit", "changing.yaml", RMHDAG_DEVELOPMENT="0").returncode == (6 if way == "near" else 0)
    path.write_text(path.read_text().replace("light-tasks", "nowhere"))
    assert cli("submit", "changing.yaml").returncode == 3


def test_logs_are_followed_to_the_end_of_the_job(cli: RunCli) -> None:
    done = cli("logs", submit(cli, "hello_world", "name=Bo"), "--follow")
    assert done.returncode == 0
    assert done.stdout.startswith("greet | ")
    assert done.stdout.endswith("greeting Bo\n")


def who_is_there(cli: RunCli, kind: str) -> list[dict[str, Any]]:
    """Once one that was killed by another test has been noticed and replaced."""

    def one_is_there() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = json.loads(cli(kind, "--json").stdout)[kind]
        return found if len(found) == 1 and found[0]["silent_seconds"] < 2 else None

    return wait_until(one_is_there)


def test_who_is_there(cli: RunCli, up: Up) -> None:
    (orchestrator,) = who_is_there(cli, "orchestrators")
    (worker,) = who_is_there(cli, "workers")
    assert up.process.pid not in (orchestrator["process_id"], worker["process_id"])
    assert sorted(worker["queues"]) == ["heavy-tasks", "light-tasks"]
    queues = json.loads(cli("queues", "--json").stdout)["queues"]
    assert [(line["queue"], line["workers"]) for line in queues] == [("heavy-tasks", 1), ("light-tasks", 1)]
    submit(cli, "hello_world")
    for command in ("orchestrators", "workers", "queues", "jobs", "workflows"):
        assert cli(command).stdout.count("\n") >= 2


def test_a_killed_orchestrator_is_replaced_and_its_job_completes(cli: RunCli, up: Up) -> None:
    job_id = submit(cli, "release")
    wait_until_running(cli, job_id, "ask")
    (before,) = who_is_there(cli, "orchestrators")
    os.kill(before["process_id"], signal.SIGKILL)
    taken = wait_until(lambda: next(iter(events(cli, job_id, "job_reclaimed")), None))
    assert taken["event_data"]["from"] == before["owner_id"]
    assert "the orchestrator was killed by SIGKILL; it is started again" in up.told()
    assert cli("decide", job_id, "ask", "approve").returncode == 0
    done = cli("job", job_id, "--wait", "--timeout", "40")
    assert done.returncode == 0, done.stderr


def test_a_killed_worker_is_replaced_and_its_task_runs_again(cli: RunCli, up: Up) -> None:
    job_id = submit(cli, "slow")
    wait_until_running(cli, job_id, "nap")
    (before,) = who_is_there(cli, "workers")
    os.kill(before["process_id"], signal.SIGKILL)

    def runs_again() -> dict[str, Any] | None:
        napping: dict[str, Any] = json.loads(cli("job", job_id, "--node", "nap", "--json").stdout)
        return napping if napping["status"] == "running" and napping["lease_losses"] else None

    # A busy machine takes its time to notice the silence, to start the next worker, and to answer us.
    napping = wait_until(runs_again, 120)
    assert (napping["attempt"], napping["lease_losses"]) == (1, 1)
    assert napping["worker_id"] != before["worker_id"]
    assert cli("cancel", job_id).returncode == 0


def test_json_objects_have_the_fields_of_the_reference(cli: RunCli, up: Up) -> None:
    done = json.loads(cli("submit", "hello_world", "--wait", "--json").stdout)["job_id"]
    open_job, asking = submit(cli, "slow"), submit(cli, "release")
    wait_until_running(cli, asking, "ask")
    commands = {
        "submit": "submit hello_world",
        "submit --dry-run": "submit hello_world --dry-run",
        "submit --wait": "submit hello_world --wait",
        "jobs": "jobs",
        "job": f"job {done}",
        "job --node": f"job {done} --node greet",
        "job --events": f"job {done} --events",
        "logs": f"logs {done}",
        "label": f"label {done} aoi=oslo",
        "label --dry-run": f"label {done} aoi- --dry-run",
        "cancel --dry-run": f"cancel {open_job} --dry-run",
        "cancel": f"cancel {open_job}",
        "retry": f"retry {done} --everything",
        "retry --dry-run": f"retry {done} --dry-run",
        "retry --node": f"retry {asking} --node ask",
        "approvals": "approvals",
        "decide": f"decide {asking} ask approve",
        "workflows": "workflows",
        "workflows show": "workflows show slow",
        "workflows register": "workflows register slow.yaml",
        "queues": "queues",
        "orchestrators": "orchestrators",
        "workers": "workers",
    }
    assert set(commands) | {"up"} == ON_A_RUNNING_PLATFORM
    compare(up.facts, JSON_OBJECTS["up"])
    for name, words in commands.items():
        compare(json.loads(cli(*words.split(), "--json").stdout), JSON_OBJECTS[name])

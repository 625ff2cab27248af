"""`rmhdag up` on its own PostgreSQL: what it writes, what it starts, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from tests.cli.conftest import RunCli, start_cli
from tests.cli.running import SHORT_LEASES, Up, Watched
from tests.cli.test_reference import compare


def processes_of(up: Up) -> list[int]:
    """Orchestrator, worker, its children and the server."""
    server = int((up.home / "data" / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
    started = list(up.facts["processes"].values())
    children = Path(f"/proc/{up.facts['processes']['worker']}/task/{up.facts['processes']['worker']}/children")
    return [server, *started, *map(int, children.read_text().split())]


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """Making a data folder takes seconds; what is tested with it is starting and ending."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_however_it_ends(number: int, shared_home: Path) -> None:
    up = Up(shared_home, "--gateway")
    watched = Watched(processes_of(up))
    try:
        try_as_partner(up.facts["gateway_url"], up.facts["sandbox_key"])
        with httpx.Client(base_url=up.facts["url"], trust_env=False, timeout=30) as browser:
            assert browser.get("/api/v1/me").status_code == 401
            assert browser.get(up.facts["login_url"]).status_code == 303
            assert "admin" in browser.get("/api/v1/me").json()["scopes"]
            assert browser.get(up.facts["login_url"]).status_code == 401
        assert up.end(number) == (0 if number == signal.SIGINT else -signal.SIGKILL)
        assert watched.are_gone()
        if number == signal.SIGINT:
            keys = json.loads(start_cli(shared_home, "keys", "list", "--all", "--json").stdout)["keys"]
            # Of this run: one that was killed in the same folder could revoke nothing.
            newest = {
                (key["kind"], key["name"]): key["state"] for key in sorted(keys, key=lambda key: key["created_at"])
            }
            assert "session" in {kind for kind, _ in newest}
            assert {"gateway", "sandbox"} <= {name for _, name in newest}
            ended = [name for name in newest if name[0] == "session" or name[1] in ("gateway", "sandbox")]
            assert {newest[name] for name in ended} == {"revoked"}
    finally:
        watched.close()


def try_as_partner(url: str, key: str) -> None:
    """The gateway is ready, and orders with the sandbox key are checked and not placed."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30, headers={"Authorization": f"Bearer {key}"}) as partner:
        me = partner.get("/platform/me").json()
        assert (me["client_id"], me["sandbox"]) == ("sandbox", True)
        order = {"workflow_id": "hello_world", "input_params": {"name": "Ada"}}
        plan = partner.post("/platform/submit", json=order).json()
        assert (plan["dry_run"], plan["plan"]["valid"], plan["plan"]["outcome"]) == (True, True, "create")
        assert partner.get("/platform/requests").json()["requests"] == []


def test_it_runs_workflows_before_your_eyes_and_names_its_queues(shared_home: Path) -> None:
    (shared_home / "mine.yaml").write_text(
        "workflow_id: mine\nname: Mine\nnodes:\n  one: {handler: echo, queue: heavy-tasks, params: {a: 1}}\n"
    )
    written = shared_home / "data" / "development.toml"
    written.unlink(missing_ok=True)
    arguments = ["up", "--workflows", "mine.yaml", "--run", "fan_out_test", "--run", "mine", "--once"]
    done = start_cli(shared_home, *arguments, **SHORT_LEASES)
    assert done.returncode == 0, done.stderr
    assert f"wrote {written}" in done.stderr
    assert "completed in" in done.stderr
    assert '"item_value": "gamma"' in done.stdout
    assert '"echoed_params"' in done.stdout
    shown = json.loads(start_cli(shared_home, "config", "show", "--json").stdout)["settings"]
    origins = {setting["name"]: (setting["value"], setting["origin"]) for setting in shown}
    assert origins["dag_worker_queue"] == ("light-tasks", f"file {written}")
    assert origins["development"] == (True, f"file {written}")
    assert origins["storage"] == (str(shared_home / "data" / "storage"), f"file {written}")
    # What happened can be read afterwards, with nothing running.
    listed = json.loads(start_cli(shared_home, "jobs", "--json", "--limit", "2").stdout)["jobs"]
    assert [(job["workflow_id"], job["status"]) for job in listed] == [
        ("mine", "completed"),
        ("fan_out_test", "completed"),
    ]


def test_a_second_one_on_the_same_folder_is_refused(run_cli: RunCli, home: Path) -> None:
    from rmhdag.embedded.lock import FolderLock

    (home / "data").mkdir()
    lock = FolderLock(home / "data" / "up.lock")
    assert lock.try_to_take()
    done = run_cli("up")
    lock.release()
    assert done.returncode == ExitCode.CONFLICT
    assert f"already up on {home / 'data'} (process {os.getpid()})" in done.stderr


def test_a_folder_that_cannot_be_used_is_explained(call_cli: RunCli, home: Path) -> None:
    (home / "data").write_text("a file")
    done = call_cli("up")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "RMHDAG_HOME" in done.stderr


def test_a_workflow_with_problems_keeps_it_from_starting(run_cli: RunCli, home: Path, database: str) -> None:
    (home / "bad.yaml").write_text("workflow_id: bad\nname: Bad\nnodes:\n  one: {handler: ecko, queue: light-tasks}\n")
    done = run_cli("up", "--workflows", "bad.yaml", RMHDAG_DATABASE_URL=database)
    assert done.returncode == ExitCode.INVALID
    assert "bad.yaml:4:" in done.stderr
    assert "Did you mean `echo`?" in done.stderr


def test_a_named_configuration_must_be_whole(run_cli: RunCli, home: Path, database: str) -> None:
    (home / "mine.toml").write_text('job_queue_name = "jobs"\n')
    done = run_cli("up", RMHDAG_CONFIG="mine.toml", RMHDAG_DATABASE_URL=database)
    assert done.returncode == ExitCode.INVALID
    assert "DAG_WORKER_QUEUE, WORKER_QUEUE" in done.stderr


def test_a_mistake_in_a_module_is_shown_before_anything_is_started(run_cli: RunCli, home: Path) -> None:
    (home / "mine.py").write_text("import rmhdag\nimport no_such_library\n")
    done = run_cli("up", RMHDAG_HANDLERS="mine")
    assert done.returncode == ExitCode.INVALID
    assert f"{home / 'mine.py'}:2: it imports 'no_such_library', which is not installed" in done.stderr
    assert "defect" not in done.stderr
    assert not (home / "data" / "postgres").exists()


def test_a_worker_says_what_is_wrong_with_a_module(run_cli: RunCli, home: Path, migrated_database: str) -> None:
    (home / "mine.py").write_text("from rmhdag.handlers import handler\n\n\n@handler('x.y')\ndef one(ctx, more): ...\n")
    done = run_cli("worker", "--queue", "light", "--handlers", "mine", RMHDAG_DATABASE_URL=migrated_database)
    assert done.returncode == ExitCode.INVALID
    assert (
        f"error: handlers of module 'mine' cannot be loaded: {home / 'mine.py'}:4: TypeError: one must" in done.stderr
    )
    assert "defect" not in done.stderr


OWN = """\
import os
from pydantic import BaseModel
from rmhdag.handlers import HandlerContext, handler


class Params(BaseModel):
    size: int


class Area(BaseModel):
    area: int


@handler("mine.square", queue="heavy-tasks")
def square(ctx: HandlerContext[Params]) -> Area:
    return Area(area=ctx.params.size**2)
"""
FLOW = """\
workflow_id: squares
nodes:
  one: {handler: mine.square, params: {size: 12}, next: two}
  two: {handler: echo, queue: light-tasks, params: {area: "{{ nodes.one.output.area }}"}}
"""


def test_workflows_with_handlers_of_one_s_own_start_with_them(home: Path) -> None:
    """And a module that breaks later is shown in the terminal, with its place."""
    (home / "mine.py").write_text(OWN)
    (home / "squares.yaml").write_text(FLOW)
    up = Up(home, "--workflows", "squares.yaml", RMHDAG_HANDLERS="mine")
    try:
        done = start_cli(home, "submit", "squares", "--wait", **up.environment)
        assert done.returncode == 0, done.stderr
        assert '"area": 144' in done.stdout
        changed = home / "changed.yaml"
        changed.write_text(FLOW.replace("squares", "changed").replace("size: 12", "szie: 12"))
        for words in (["validate", "--live"], ["workflows", "register"]):
            refused = start_cli(home, *words, "changed.yaml", **up.environment)
            assert refused.returncode == ExitCode.INVALID
            assert "handler `mine.square` has no parameter `szie`" in refused.stdout + refused.stderr
        (home / "mine.py").write_text("def square(:\n")
        os.kill(up.facts["processes"]["worker"], signal.SIGKILL)
        up.wait_until_told(
            f"{home / 'mine.py'}:1: SyntaxError: invalid syntax. Correct the module; it is started again"
        )
    finally:
        up.end()


def test_what_was_drained_is_not_started_again(shared_home: Path) -> None:
    up = Up(shared_home)
    try:
        for kind, field in (("worker", "worker_id"), ("orchestrator", "owner_id")):
            listed = start_cli(shared_home, f"{kind}s", "--json", **up.environment)
            # Others that were killed in this home may still be listed.
            there = max(json.loads(listed.stdout)[f"{kind}s"], key=lambda one: one["started_at"])
            words = (f"{kind}s", "drain", there[field], "--wait", "60", "--json")
            drained = start_cli(shared_home, *words, **up.environment)
            assert drained.returncode == 0, drained.stderr
            compare(told := json.loads(drained.stdout), JSON_OBJECTS[f"{kind}s drain"])
            assert told == {"process": there[field], "draining": True, "has_ended": True}
            up.wait_until_told(f"the {kind} was drained and stays stopped")
            again = start_cli(shared_home, f"{kind}s", "drain", there[field], **up.environment)
            assert again.returncode == ExitCode.NOT_FOUND
        assert "started again in" not in up.told()
    finally:
        assert up.end() == 0

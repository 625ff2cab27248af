"""Orchestrator and worker as an operator starts them: by themselves, only polling, ended by SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rmhdag.cli.api_process import listen_nearby
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.run_api import listen
from tests.cli.conftest import RunCli, plain_environment
from tests.cli.running import SHORT_LEASES, Watched
from tests.store.waiting import wait_until

HANDLERS = """\
from rmhdag.handlers import HandlerContext, handler


@handler("mine.greet", queue="own-queue")
def greet(ctx: HandlerContext) -> dict:
    return {"greeting": f"Hi, {ctx.params['name']}"}
"""
WORKFLOW = """\
workflow_id: mine
name: A handler of our own, in the queue that it names
inputs: {name: {type: string, default: you}}
nodes:
  greet: {handler: mine.greet, params: {name: "{{ inputs.name }}"}}
"""


class Started:
    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self._home = home
        self._environment = environment
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Ready to serve once it has said its first line."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", *arguments],
            stderr=subprocess.PIPE,
            cwd=self._home,
            env=plain_environment(self._home) | self._environment,
            text=True,
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture
def environment(migrated_database: str, home: Path) -> dict[str, str]:
    return SHORT_LEASES | {
        "RMHDAG_DATABASE_URL": migrated_database,
        "JOB_QUEUE_NAME": "jobs",
        "DAG_WORKER_QUEUE": "light-tasks",
        "WORKER_QUEUE": "heavy-tasks",
        "RMHDAG_HANDLERS": "our_handlers",
        "PYTHONPATH": str(home),
    }


@pytest.fixture
def started(home: Path, environment: dict[str, str]) -> Iterator[Started]:
    processes = Started(home, environment)
    yield processes
    processes.close()


def test_processes_by_themselves_end_well(
    started: Started, call_cli: RunCli, environment: dict[str, str], home: Path, migrated_database: str
) -> None:
    """The orchestrator is there first: it learns of the handler, and of its queue, when a worker brings it."""
    (home / "our_handlers.py").write_text(HANDLERS)
    (home / "mine.yaml").write_text(WORKFLOW)

    def read(*arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(call_cli(*arguments, "--json", **environment).stdout)
        return found

    orchestrator = started.start("orchestrator", "--no-notify")
    wait_until(lambda: read("orchestrators")["orchestrators"])
    worker = started.start("worker", "--queue", "own-queue", "--concurrency", "1", "--no-notify")
    wait_until(lambda: read("workers")["workers"])
    done = call_cli("submit", "mine.yaml", "name=Eve", "--wait", **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"greet": {"greeting": "Hi, Eve"}}

    with psycopg.connect(migrated_database, autocommit=True) as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        listening = conn.execute(query).fetchone()
    assert listening == (0,)
    job_id = call_cli("submit", "mine.yaml", **environment).stdout.strip()
    for process in (worker, orchestrator):
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.read().endswith("stopped\n")
        assert process.wait(30) == 0
    assert read("orchestrators")["orchestrators"] == []
    assert read("workers")["workers"] == []
    # Handed over, not abandoned: nobody owns it, whatever became of it.
    facts = read("job", job_id)
    assert facts["status"] == "completed" or facts["owner_id"] is None


# What an operator starts; the first word that it writes is its kind.
KINDS = {
    "orchestrator": ["orchestrator"],
    "worker": ["worker", "--queue", "light-tasks", "--concurrency", "1"],
    "api": ["api", "--port", "0"],
}
OLDER = "UPDATE dagapp.dag_schema_meta SET schema_version = 1, oldest_code_version = 1"
SHUT_OUT = "UPDATE dagapp.dag_schema_meta SET schema_version = 7000, oldest_code_version = 7000"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (OLDER, "schema dagapp has version 1, this program needs"),
        (SHUT_OUT, "schema dagapp takes programs of version 7000 or newer"),
    ],
    ids=["older", "newer"],
)
@pytest.mark.parametrize("arguments", [*KINDS.values(), ["jobs"]], ids=[*KINDS, "jobs"])
def test_no_process_starts_on_a_schema_of_another_version(
    call_cli: RunCli,
    environment: dict[str, str],
    migrated_database: str,
    arguments: list[str],
    change: str,
    sentence: str,
) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(change.encode())
    done = call_cli(*arguments, **environment | {"RMHDAG_HANDLERS": ""})
    assert done.returncode == ExitCode.CONFLICT
    assert sentence in done.stderr
    assert ("`rmhdag db migrate`" in done.stderr) is (change == OLDER)
    assert ("Update rmhdag" in done.stderr) is (change == SHUT_OUT)


@pytest.mark.parametrize("arguments", KINDS.values(), ids=KINDS)
def test_a_process_stops_when_a_migration_shuts_it_out(
    started: Started, environment: dict[str, str], migrated_database: str, arguments: list[str]
) -> None:
    environment["RMHDAG_HANDLERS"] = ""
    process = started.start(*arguments)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith(arguments[0]), first
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(SHUT_OUT.encode())
    assert "takes programs of version 7000 or newer" in process.stderr.read()
    assert process.wait(30) == ExitCode.CONFLICT


def children_of(process_id: int) -> list[int]:
    """Whichever thread has started them."""
    found = Path(f"/proc/{process_id}/task").glob("*/children")
    return [int(word) for path in found for word in path.read_text().split()]


def is_served(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False, timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_orchestrator_serves_the_api_beside_it_if_told_to(
    started: Started, environment: dict[str, str], home: Path, number: int
) -> None:
    (home / "our_handlers.py").write_text(HANDLERS)
    environment["RMHDAG_API_PORT"] = "0"
    process = started.start("orchestrator", "--api")
    assert process.stderr is not None
    url = next(line.split()[-1] for line in process.stderr if line.startswith("the API listens on"))
    assert is_served(url)
    (first,) = children_of(process.pid)
    os.kill(first, signal.SIGKILL)
    # The socket is the orchestrator's: whoever comes meanwhile waits for the next one.
    assert wait_until(lambda: is_served(url))
    (second,) = children_of(process.pid)
    assert second != first
    watched = Watched([second])
    try:
        process.send_signal(number)
        assert process.wait(30) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert watched.are_gone()
    finally:
        watched.close()


def test_without_being_told_it_serves_nothing(
    started: Started, call_cli: RunCli, environment: dict[str, str], home: Path
) -> None:
    (home / "our_handlers.py").write_text(HANDLERS)
    process = started.start("orchestrator")
    wait_until(lambda: json.loads(call_cli("orchestrators", "--json", **environment).stdout)["orchestrators"])
    assert children_of(process.pid) == []


def test_a_port_that_was_asked_for_and_is_taken(run_cli: RunCli, environment: dict[str, str], home: Path) -> None:
    (home / "our_handlers.py").write_text(HANDLERS)
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for command in ("api", "up"):
            done = run_cli(command, **environment, RMHDAG_API_PORT=str(port))
            assert done.returncode == ExitCode.UNAVAILABLE
            assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
        with listen_nearby("127.0.0.1", port, 50) as near:
            assert port < near.getsockname()[1] < port + 50


def test_an_issuer_that_is_half_configured(call_cli: RunCli, environment: dict[str, str]) -> None:
    given = {"RMHDAG_OIDC_ISSUER": "https://issuer.example", "RMHDAG_API_PORT": "0"}
    done = call_cli("api", **environment, **given)
    assert done.returncode == ExitCode.INVALID
    assert "RMHDAG_OIDC_AUDIENCE" in done.stderr

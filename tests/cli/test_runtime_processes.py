"""Orchestrator and worker as an operator starts them: by themselves, only polling, ended by SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import RunCli, plain_environment
from tests.cli.running import SHORT_LEASES
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
        listening = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'").fetchone()
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

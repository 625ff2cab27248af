"""Commands that work on the database itself keep to the quotas of the namespace, as those over HTTP do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from tests.cli.conftest import RunCli
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform

NORTH = ("--namespace", "north")


@pytest.fixture
def platform(migrated_database: str) -> Any:
    made = Platform(migrated_database)
    made.register(workflow(a=task()), namespace="north")
    yield made
    made.close()


@pytest.fixture
def run(call_cli: RunCli, platform: Platform) -> Any:
    def call(*arguments: str) -> Any:
        queues = {"DAG_WORKER_QUEUE": "light", "WORKER_QUEUE": "heavy"}
        return call_cli(*arguments, RMHDAG_DATABASE_URL=platform.dsn, **queues)

    return call


def limit(run: Any, **quotas: int) -> None:
    done = run("quotas", "set", "north", *(f"{name}={value}" for name, value in quotas.items()))
    assert done.returncode == 0, done.stderr


def refused(done: Any, name: str) -> str:
    """With the sentence that names the quota, and what the operator can do about it."""
    assert done.returncode == ExitCode.CONFLICT, done.stderr
    assert f"`{name}`" in done.stderr
    assert f"rmhdag quotas set NAMESPACE {name}=" in done.stderr
    return str(done.stderr)


def test_open_jobs(run: Any, platform: Platform) -> None:
    limit(run, open_jobs=1)
    assert run("submit", "under_test", *NORTH).returncode == 0
    text = refused(run("submit", "under_test", *NORTH), "open_jobs")
    assert "1 of 1" in text
    assert platform.count("dag_jobs") == 1


def test_bytes_and_priority(run: Any, platform: Platform) -> None:
    limit(run, stored_bytes=1, priority=3)
    refused(run("submit", "under_test", *NORTH), "stored_bytes")
    refused(run("submit", "under_test", "--priority", "4", *NORTH), "priority")
    assert platform.count("dag_jobs") == 0


def test_orders_and_reruns(run: Any, platform: Platform) -> None:
    seat = platform.seat()
    job_id = json.loads(run("submit", "under_test", "--priority", "7", *NORTH, "--json").stdout)["job_id"]
    platform.finish(seat)
    limit(run, open_jobs=0)
    refused(run("retry", job_id, "--everything", *NORTH), "open_jobs")
    refused(run("submit", "under_test", "--platform", "arcgis", "--ref", "item_id=a1", *NORTH), "open_jobs")
    limit(run, open_jobs=5, priority=2)
    assert run("retry", job_id, "--everything", *NORTH).returncode == 0
    newest = platform.conn.execute("SELECT priority FROM dag_jobs WHERE rerun_of IS NOT NULL").fetchone()
    assert newest == (2,)


def test_keys_and_workflows(run: Any, platform: Platform, tmp_path: Any) -> None:
    limit(run, keys=1, workflows=1)
    assert run("keys", "create", "a", "--scope", "read", *NORTH).returncode == 0
    refused(run("keys", "create", "b", "--scope", "read", *NORTH), "keys")
    file = tmp_path / "second.yaml"
    file.write_text("workflow_id: second\nnodes: {a: {handler: echo, queue: light}}\n", encoding="utf-8")
    refused(run("workflows", "register", str(file), *NORTH), "workflows")


def test_another_namespace_is_not_concerned(run: Any, platform: Platform) -> None:
    limit(run, open_jobs=0)
    platform.register(workflow(a=task()))
    assert run("submit", "under_test").returncode == 0

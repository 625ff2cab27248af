"""What a shell is told after Tab."""

from __future__ import annotations

import json
import subprocess

from tests.cli.conftest import RunCli


def words(run_cli: RunCli, line: str, **environment: str) -> list[str]:
    asked = {"_RMHDAG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done: subprocess.CompletedProcess[str] = run_cli(**asked, **environment)
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_statuses(run_cli: RunCli) -> None:
    assert words(run_cli, "rmhdag appr") == ["approvals"]
    assert words(run_cli, "rmhdag jobs --status c") == ["completed", "cancelled"]


def test_workflows_and_jobs_of_the_platform(run_cli: RunCli, migrated_database: str) -> None:
    platform = {"RMHDAG_DATABASE_URL": migrated_database, "DAG_WORKER_QUEUE": "light", "WORKER_QUEUE": "heavy"}
    assert run_cli("workflows", "register", "--shipped", **platform).returncode == 0
    assert words(run_cli, "rmhdag submit hel", **platform) == ["hello_world"]
    made = run_cli("submit", "hello_world", "--json", **platform)
    job_id = json.loads(made.stdout)["job_id"]
    assert words(run_cli, f"rmhdag job {job_id[:6]}", **platform) == [job_id]


def test_nothing_is_started_for_it(run_cli: RunCli) -> None:
    assert words(run_cli, "rmhdag submit hel") == []
    assert words(run_cli, "rmhdag job 01") == []
    assert run_cli("db", "status", "--json").stdout.find('"running": true') == -1


def test_a_database_that_is_away_is_no_word(run_cli: RunCli) -> None:
    away = "postgresql://rmhdag@127.0.0.1:1/rmhdag?connect_timeout=2"
    assert words(run_cli, "rmhdag submit hel", RMHDAG_DATABASE_URL=away) == []

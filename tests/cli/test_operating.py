"""What operators do: workflows, old rows, backups; beside the database and over HTTP with the same words and codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.embedded import wheel_binaries
from rmhdag.models.scopes import Scope
from tests.api.serving import served
from tests.cli.conftest import RunCli, plain_environment
from tests.cli.test_reference import compare
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import QUEUE, Platform

FLOW = f"""\
workflow_id: flow
name: From a file
inputs: {{n: {{type: integer, default: 1}}}}
nodes:
  only: {{handler: echo, queue: {QUEUE}}}
"""


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.fixture(params=["near", "far"])
def cli(request: pytest.FixtureRequest, platform: Platform, call_cli: RunCli) -> Iterator[RunCli]:
    if request.param == "near":
        near = {"RMHDAG_DATABASE_URL": platform.dsn, "DAG_WORKER_QUEUE": QUEUE}
        yield lambda *words, **more: call_cli(*words, **near)
        return
    with served(platform.dsn, queues=[QUEUE]) as api:
        far = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN, Scope.PLATFORM, name="ada")}
        yield lambda *words, **more: call_cli(*words, **far)


def read(cli: RunCli, name: str, *words: str | Path) -> dict[str, Any]:
    done = cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    compare(found, JSON_OBJECTS[name])
    return found


# -- a dry run -----------------------------------------------------------------------------------------------------


def test_a_dry_run_of_a_file_changes_nothing(cli: RunCli, platform: Platform, home: Path) -> None:
    (home / "flow.yaml").write_text(FLOW)
    found = read(cli, "submit --dry-run", "submit", "flow.yaml", "n=2", "--dry-run")
    assert (found["workflow_id"], found["input_params"]) == ("flow", {"n": 2})
    assert platform.count("dag_workflows") == 0
    assert platform.count("dag_jobs") == 0
    assert "nothing was registered or submitted" in cli("submit", "flow.yaml", "--dry-run").stderr


def test_a_dry_run_of_a_file_refuses_what_submitting_it_would(cli: RunCli, platform: Platform, home: Path) -> None:
    (home / "flow.yaml").write_text(FLOW)
    assert cli("submit", "flow.yaml", "n=x", "--dry-run").returncode == ExitCode.INVALID
    (home / "flow.yaml").write_text(FLOW.replace("handler: echo", "handler: ecko"))
    wrong = cli("submit", "flow.yaml", "--dry-run")
    assert wrong.returncode == ExitCode.INVALID
    assert "flow.yaml:5" in wrong.stderr
    assert platform.count("dag_workflows") == 0


def test_problems_of_a_file_are_named_with_their_places_beside_the_error(
    cli: RunCli, platform: Platform, home: Path
) -> None:
    """`id=$(rmhdag submit flow.yaml)` hides stdout: all of it goes to stderr, and ends with what did not happen."""
    (home / "flow.yaml").write_text(FLOW.replace("handler: echo", "handler: ecko"))
    for words in (["submit"], ["submit", "--dry-run"], ["submit", "--json"], ["workflows", "register"]):
        wrong = cli(*words, "flow.yaml")
        consequence = "nothing was registered" if "register" in words else "no job was submitted"
        assert (wrong.returncode, wrong.stdout) == (ExitCode.INVALID, "")
        assert wrong.stderr.startswith("flow.yaml:5:")
        assert "there is no handler `ecko`" in wrong.stderr
        assert wrong.stderr.endswith(f"error: 1 problem in flow.yaml: {consequence}\n")
    assert platform.count("dag_workflows") == platform.count("dag_jobs") == 0


def test_a_dry_run_refuses_another_content_of_a_version(platform: Platform, call_cli: RunCli, home: Path) -> None:
    near = {"RMHDAG_DATABASE_URL": platform.dsn, "DAG_WORKER_QUEUE": QUEUE}
    (home / "flow.yaml").write_text(FLOW)
    assert call_cli("workflows", "register", "flow.yaml", **near).returncode == 0
    (home / "flow.yaml").write_text(FLOW.replace("default: 1", "default: 7"))
    refused = call_cli("submit", "flow.yaml", "--dry-run", **near)
    assert (refused.returncode, "another content" in refused.stderr) == (ExitCode.CONFLICT, True)
    taken = call_cli("submit", "flow.yaml", "--dry-run", **near, RMHDAG_DEVELOPMENT="1")
    assert taken.returncode == 0, taken.stderr
    assert platform.count("dag_workflows") == 1


# -- retiring ------------------------------------------------------------------------------------------------------


def test_a_retired_workflow_takes_no_jobs_until_it_is_restored(cli: RunCli, platform: Platform) -> None:
    definition = workflow(only=task())
    job_id, name = platform.submit(definition), definition.workflow_id
    line = read(cli, "workflows retire", "workflows", "retire", name)
    assert (line["workflow_id"], line["retired_at"] is None) == (name, False)
    assert read(cli, "workflows", "workflows")["workflows"] == []
    assert [one["workflow_id"] for one in read(cli, "workflows", "workflows", "list", "--all")["workflows"]] == [name]
    assert "(retired)" in cli("workflows", "list", "--all").stdout
    assert "accepts no new jobs" in cli("workflows", "show", name).stdout
    for words in (("submit", name), ("submit", name, "--dry-run")):
        refused = cli(*words)
        assert refused.returncode == ExitCode.CONFLICT
        assert "is retired and accepts no new jobs" in refused.stderr
        assert "rmhdag workflows restore" in refused.stderr
    platform.finish(platform.seat())
    assert platform.job(job_id)["status"] == "completed", "what was under way goes on"
    assert read(cli, "workflows restore", "workflows", "restore", name)["retired_at"] is None
    assert cli("submit", name).returncode == 0


def test_only_a_workflow_that_exists_can_be_retired(cli: RunCli) -> None:
    for command in ("retire", "restore"):
        unknown = cli("workflows", command, "nothing")
        assert (unknown.returncode, "workflows list --all" in unknown.stderr) == (ExitCode.NOT_FOUND, True)


# -- pruning -------------------------------------------------------------------------------------------------------


def old_job(platform: Platform) -> str:
    job_id = platform.submit(workflow(only=task()))
    platform.finish(platform.seat())
    platform.conn.execute("UPDATE dag_jobs SET completed_at = completed_at - 31 * interval '1 day'")
    platform.conn.execute(
        "INSERT INTO dag_rollup_marks (namespace, rolled_up_to) VALUES ('default', clock_timestamp())"
    )
    return job_id


def test_a_dry_run_says_what_retention_would_delete_and_why(cli: RunCli, platform: Platform) -> None:
    old_job(platform)
    found = read(cli, "prune --dry-run", "prune", "--dry-run")
    (line,) = [line for line in found["tables"] if line["table"] == "dag_jobs"]
    assert line["rows"] == 1
    assert line["setting"] == "RMHDAG_RETENTION_DAYS"
    shown = cli("prune", "--dry-run")
    assert "of jobs that ended more than 30 days ago" in shown.stdout
    assert "nothing was deleted" in shown.stderr
    assert platform.count("dag_jobs") == 1


def test_pruning_asks_first_and_then_deletes(cli: RunCli, platform: Platform) -> None:
    old_job(platform)
    asked = cli("prune")
    assert (asked.returncode, "--yes" in asked.stderr) == (ExitCode.USAGE, True)
    assert platform.count("dag_jobs") == 1
    assert read(cli, "prune", "prune", "--yes")["deleted"]["dag_jobs"] == 1
    assert platform.count("dag_jobs") == 0
    assert "nothing to delete" in cli("prune", "--yes").stderr


def test_only_operators_of_the_platform_prune(platform: Platform, call_cli: RunCli) -> None:
    with served(platform.dsn) as api:
        administrator = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN)}
        for words in (("prune", "--dry-run"), ("prune", "--yes")):
            assert call_cli(*words, **administrator).returncode == ExitCode.AUTHENTICATION


# -- backup --------------------------------------------------------------------------------------------------------


def test_a_backup_is_made_and_restored_as_the_page_says(migrated_database: str, database: str, home: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    backup, restore = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("INSERT INTO dagapp.dag_dead_letters (dead_letter_id, reason, raw) VALUES ('kept', 'r', 'x')")
    # Servers of this test stand for those of the two data folders.
    script = backup.replace("$(rmhdag db start)", migrated_database) + restore.replace("$(rmhdag db start)", database)
    binaries = wheel_binaries()
    assert binaries is not None
    script = script.replace("$(rmhdag db tools)", str(binaries.bin_folder))
    # Roles belong to the whole server, which other tests share.
    script = script.replace("rmhdag db stop\n", "").replace("rmhdag db roles\n", "")
    environment = plain_environment(home) | {"RMHDAG_DATABASE_URL": database}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=home, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "up_to_date      yes" in done.stdout
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT dead_letter_id FROM dagapp.dag_dead_letters").fetchall() == [("kept",)]

"""Commands against a server: by which settings, with which key, and what is said when it does not work."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.patience import MOST_SECONDS
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import CONNECT_SECONDS, connect
from rmhdag.store.workers import register_handlers
from tests.api.serving import ServedHere, served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.client.answering import answering, problem
from tests.orchestrator.platform import open_connection


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database) as running:
        yield running


@pytest.fixture
def far(api: ServedHere, call_cli: RunCli) -> RunCli:
    key = api.key(Scope.ADMIN, name="ada")

    def call(*arguments: Any, stdin: str | bytes = b"", **more: str) -> Any:
        return call_cli(*arguments, stdin=stdin, **({"RMHDAG_URL": api.url, "RMHDAG_KEY": key} | more))

    return call


def test_keys_are_managed_far_away(far: RunCli, api: ServedHere) -> None:
    def read(*arguments: str) -> dict[str, Any]:
        done = far("keys", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        compare(found, JSON_OBJECTS[f"keys {arguments[0]}"])
        return found

    first = read("create", "ci", "--scope", "read", "--expires", "2")
    assert (first["created_by"], first["namespace"]) == ("ada", "default")
    second = read("rotate", first["key_id"], "--overlap", "1")
    assert far("keys", "rotate", second["key_id"]).returncode == ExitCode.CONFLICT
    assert read("revoke", first["key_id"])["state"] == "revoked"
    with open_connection(api.dsn) as conn, pytest.raises(api_keys.KeyRefused):
        api_keys.verify_key(conn, first["key"])
    assert {key["name"] for key in read("list", "--all")["keys"]} == {"ada", "ci"}
    for command in ("rotate", "revoke"):
        unknown = far("keys", command, "0123456789abcdef")
        assert (unknown.returncode, "rmhdag keys list" in unknown.stderr) == (ExitCode.NOT_FOUND, True)


def test_who_may_not(far: RunCli, api: ServedHere) -> None:
    nobody = far("jobs", RMHDAG_KEY="rmh_wrong")
    assert nobody.returncode == ExitCode.AUTHENTICATION
    assert "RMHDAG_KEY" in nobody.stderr
    assert "rmh_wrong" not in nobody.stderr
    assert far("jobs", RMHDAG_KEY="").returncode == ExitCode.AUTHENTICATION
    reader = far("keys", "list", RMHDAG_KEY=api.key(Scope.READ))
    assert reader.returncode == ExitCode.AUTHENTICATION
    assert "admin" in reader.stderr
    other = far("jobs", "--namespace", "north")
    assert (other.returncode, "namespace default" in other.stderr) == (ExitCode.AUTHENTICATION, True)
    assert far("jobs", "--namespace", "default").returncode == 0


def test_a_server_knows_its_callers_by_their_keys(far: RunCli) -> None:
    refused = far("keys", "create", "ci", "--scope", "read", "--as", "somebody")
    assert (refused.returncode, "--as" in refused.stderr) == (ExitCode.USAGE, True)


def test_a_server_that_does_not_answer(call_cli: RunCli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = call_cli("queues", "--url", url, RMHDAG_KEY="k")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert url in done.stderr
    assert call_cli("queues", RMHDAG_URL="example.org").returncode == ExitCode.INVALID


def test_a_server_whose_database_does_not_answer(call_cli: RunCli) -> None:
    """Its remedy names a header, which nobody sees on the command line."""
    away = problem(503, "database_unavailable", remedy="Try again after the time in Retry-After.")
    away.headers["Retry-After"] = "3600"
    with answering(away) as server:
        done = call_cli("queues", "--url", server.url, RMHDAG_KEY="k")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "Start the database, or wait until it answers, and repeat the command" in done.stderr
    assert "Retry-After" not in done.stderr


def test_which_of_two_is_meant(far: RunCli, api: ServedHere, call_cli: RunCli) -> None:
    """The server before the database, and what is on the command line before the rest."""
    nowhere = "postgresql://127.0.0.1:1/nowhere"
    assert far("jobs", RMHDAG_DATABASE_URL=nowhere).returncode == 0
    assert far("jobs", "--database-url", nowhere).returncode == ExitCode.UNAVAILABLE
    assert far("jobs", "--database-url", api.dsn, RMHDAG_KEY="rmh_wrong").returncode == 0
    assert far("jobs", "--url", api.url, "--database-url", nowhere).returncode == ExitCode.USAGE
    by_flag = call_cli("jobs", "--url", api.url, RMHDAG_KEY=api.key(Scope.READ), RMHDAG_DATABASE_URL=nowhere)
    assert by_flag.returncode == 0, by_flag.stderr


@pytest.mark.parametrize("command", ["db status", "db migrate", "up", "orchestrator", "worker --queue x", "api"])
def test_commands_that_need_the_database_say_so(command: str, call_cli: RunCli) -> None:
    queues = {"JOB_QUEUE_NAME": "jobs", "DAG_WORKER_QUEUE": "light", "WORKER_QUEUE": "heavy"}
    done = call_cli(*command.split(), RMHDAG_URL="http://127.0.0.1:1", **queues)
    assert done.returncode == ExitCode.INVALID, done.stderr
    assert "needs a database connection" in done.stderr
    assert "RMHDAG_DATABASE_URL" in done.stderr


def test_doctor_says_so_too(call_cli: RunCli) -> None:
    checks = json.loads(call_cli("doctor", "--json", RMHDAG_URL="http://127.0.0.1:1").stdout)["checks"]
    (found,) = [check for check in checks if check["name"] == "postgresql"]
    assert (found["status"], "needs a database connection" in found["value"]) == ("failed", True)


def test_the_settings_show_the_server_and_mask_the_key(call_cli: RunCli) -> None:
    done = call_cli("config", "show", "--json", RMHDAG_URL="https://u:pw@dag.example.org", RMHDAG_KEY="rmh_secret")
    shown = {row["name"]: row["value"] for row in json.loads(done.stdout)["settings"]}
    assert (shown["url"], shown["key"]) == ("https://u:***@dag.example.org", "***")
    assert shown["api_listeners_per_key"] == 100
    assert "rmh_secret" not in done.stdout + done.stderr


def test_a_server_checks_files_with_its_own_handlers_and_queues(far: RunCli, api: ServedHere, home: Path) -> None:
    nodes = ["one: {handler: mine.clip, params: {tile: a}}", "two: {handler: echo, queue: nowhere}"]
    (home / "mine.yaml").write_text("\n  ".join(["workflow_id: mine\nnodes:", *nodes]))
    told = json.loads(far("validate", "mine.yaml", "--live", "--json").stdout)
    compare(told, JSON_OBJECTS["validate"])
    assert [one["code"] for one in told["files"][0]["problems"]] == ["unknown-handler", "unknown-queue"]
    schema = {"type": "object", "properties": {"tiles": {}}, "additionalProperties": False}
    clip = {"handler": "mine.clip", "aliases": [], "queue": "light", "version": "1", "description": ""}
    with open_connection(api.dsn) as conn:
        register_handlers(conn, [clip | {"params_schema": schema}])
    wrong = far("validate", "mine.yaml", "--url", api.url)
    assert wrong.returncode == ExitCode.INVALID
    assert "mine.yaml:3:38: handler `mine.clip` has no parameter `tile`" in wrong.stdout
    (home / "mine.yaml").write_text("workflow_id: mine\nnodes:\n  one: {handler: mine.clip, params: {tiles: a}}\n")
    right = far("validate", "mine.yaml", "--live")
    assert (right.returncode, right.stdout) == (0, "mine.yaml: valid (mine v1, 1 node)\n")


def test_a_command_says_what_it_waits_for_and_gives_up(migrated_database: str, run_cli: RunCli) -> None:
    """The database is away: nobody sits before a silent terminal."""
    name = conninfo_to_dict(migrated_database)["dbname"]
    with (
        served(migrated_database, patience_seconds=0.5) as api,
        connect(make_conninfo(migrated_database, dbname="postgres"), "test", autocommit=True) as conn,
    ):
        server = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN, name="ada")}
        assert run_cli("jobs", **server).returncode == 0
        conn.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        try:
            conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            away = run_cli("jobs", **server)
        finally:
            conn.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
    assert away.returncode == ExitCode.UNAVAILABLE
    notice, error, *_ = away.stderr.splitlines()
    assert notice == f"{api.url}: the database does not answer; waiting (at most {MOST_SECONDS:.0f} s)"
    assert error == f"error: {api.url}: the database does not answer"
    assert "no job is lost" in away.stderr


def test_a_database_that_accepts_and_does_not_answer_is_named(call_cli: RunCli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        away = call_cli("jobs", RMHDAG_DATABASE_URL=f"postgresql://u:secret@127.0.0.1:{port}/db")
    assert away.returncode == ExitCode.UNAVAILABLE
    notice = away.stderr.splitlines()[0]
    assert notice.startswith("waiting for postgresql://")
    assert notice.endswith(f"(at most {CONNECT_SECONDS} s)")
    assert "secret" not in away.stderr

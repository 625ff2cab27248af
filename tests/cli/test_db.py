"""`rmhdag db …`: on real servers, the embedded one included."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from rmhdag.cli.server import choose_server
from rmhdag.cli.settings import Settings
from tests.cli.conftest import RunCli, plain_environment


def test_ddl_needs_no_database(call_cli: RunCli) -> None:
    done = call_cli("db", "ddl", "--schema", "staging")
    assert done.returncode == 0
    assert done.stdout.startswith("CREATE SCHEMA IF NOT EXISTS staging;\n")
    assert "CREATE TABLE staging.dag_jobs" in done.stdout
    assert call_cli("db", "ddl", "--schema", "Bad-Name").returncode == 3


def test_migrate_shows_applies_and_then_has_nothing_to_do(call_cli: RunCli, database: str) -> None:
    planned = call_cli("db", "migrate", "--dry-run", RMHDAG_DATABASE_URL=database)
    assert planned.returncode == 0
    assert "CREATE TABLE dagapp.dag_jobs" in planned.stdout
    assert "nothing was changed (--dry-run)" in planned.stderr
    assert call_cli("db", "status", RMHDAG_DATABASE_URL=database).returncode == 1

    first = call_cli("db", "migrate", "--yes", RMHDAG_DATABASE_URL=database)
    assert first.returncode == 0
    lines = first.stdout.splitlines()
    assert lines[0] == f"[1/{len(lines)}] create schema dagapp"
    assert first.stderr.endswith("done: schema dagapp is up to date\n")

    second = call_cli("db", "migrate", "--yes", RMHDAG_DATABASE_URL=database)
    assert (second.returncode, second.stdout) == (0, "")
    assert second.stderr.startswith("nothing to do: schema dagapp in postgresql://")
    assert secret_of(database) not in first.stderr + second.stderr + planned.stderr

    told = json.loads(call_cli("db", "status", "--json", RMHDAG_DATABASE_URL=database).stdout)
    assert (told["running"], told["up_to_date"], told["pending_steps"], told["embedded"]) == (True, True, 0, False)
    assert secret_of(database) not in told["database"]


def secret_of(url: str) -> str:
    password = psycopg.conninfo.conninfo_to_dict(url)["password"]
    assert isinstance(password, str)
    return password


def test_migrate_as_json(call_cli: RunCli, database: str) -> None:
    planned = json.loads(call_cli("db", "migrate", "--dry-run", "--json", "--database-url", database).stdout)
    assert (planned["applied"], planned["up_to_date"], planned["refusals"]) == (False, False, [])
    assert planned["steps"][0] == {
        "kind": "Change",
        "title": "create schema dagapp",
        "statements": ["CREATE SCHEMA IF NOT EXISTS dagapp"],
    }
    done = call_cli("db", "migrate", "--yes", "--json", RMHDAG_DATABASE_URL=database)
    applied = json.loads(done.stdout)
    assert (applied["applied"], applied["up_to_date"], len(applied["steps"])) == (True, True, len(planned["steps"]))
    assert done.stderr == ""
    again = json.loads(call_cli("db", "migrate", "--yes", "--json", "--database-url", database).stdout)
    assert (again["applied"], again["up_to_date"], again["steps"]) == (False, True, [])


def test_nobody_to_ask_is_a_wrong_command_line(call_cli: RunCli, database: str) -> None:
    done = call_cli("db", "migrate", "--database-url", database)
    assert done.returncode == 2
    assert "  create schema dagapp\n" in done.stderr
    assert "there is no terminal to ask" in done.stderr
    assert not has_schema(database)


def has_schema(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT FROM pg_namespace WHERE nspname = 'dagapp'").fetchone() is not None


@pytest.mark.parametrize(("answer", "code"), [("n\n", 7), ("\n", 7), ("y\n", 0)])
def test_migrate_asks_in_a_terminal(home: Path, database: str, answer: str, code: int) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "db", "migrate", "--database-url", database],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        env=plain_environment(home),
    )
    os.close(follower)
    os.write(leader, answer.encode())
    _, errors = process.communicate(timeout=100)
    os.close(leader)
    assert process.returncode == code, errors
    assert b"Apply " in errors
    assert has_schema(database) == (code == 0)


def test_what_cannot_be_done_safely_is_refused_as_a_whole(call_cli: RunCli, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA dagapp")
        connection.execute("CREATE TABLE dagapp.dag_jobs (job_id integer PRIMARY KEY)")
    done = call_cli("db", "migrate", "--yes", "--database-url", database)
    assert done.returncode == 6
    assert "cannot be migrated safely, so nothing was changed" in done.stderr
    assert "dagapp.dag_jobs" in done.stderr
    told = call_cli("db", "migrate", "--yes", "--json", "--database-url", database)
    assert told.returncode == 6
    assert json.loads(told.stdout)["refusals"]
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'dagapp'").fetchone()
    assert found == (1,)


def test_a_server_that_is_not_there(call_cli: RunCli) -> None:
    for command in (["db", "migrate", "--yes"], ["db", "status"]):
        done = call_cli(*command, RMHDAG_DATABASE_URL="postgresql://me:secret@127.0.0.1:1/x")
        assert done.returncode == 69
        assert done.stderr.startswith("error: postgresql://me:***@127.0.0.1:1/x cannot be reached: ")
        assert "secret" not in done.stderr


def test_a_wrong_password(call_cli: RunCli, database: str) -> None:
    wrong = database.replace(secret_of(database), "wrong")
    done = call_cli("db", "status", "--database-url", wrong)
    assert done.returncode == 5
    assert "refuses the login" in done.stderr


def test_the_embedded_server_from_nothing_to_stopped(run_cli: RunCli, call_cli: RunCli, home: Path) -> None:
    """Started for a command, kept in the background, found by others, stopped; nothing is left behind."""
    assert call_cli("db", "status").returncode == 69
    assert not (home / "data").exists()
    made = run_cli("db", "migrate", "--yes")
    assert made.returncode == 0, made.stderr
    assert made.stderr.startswith(f"starting the embedded PostgreSQL in {home}/data/postgres for this command\n")
    assert call_cli("db", "status").returncode == 69

    with choose_server(Settings(home=home / "data")):
        needed = call_cli("db", "stop")
        assert needed.returncode == 6
        assert f"process {os.getpid()} started the server" in needed.stderr
        assert call_cli("db", "status").returncode == 0

    started = run_cli("db", "start", "--json")
    assert started.returncode == 0, started.stderr
    try:
        url = json.loads(started.stdout)["url"]
        assert has_schema(url)
        again = call_cli("db", "start")
        assert (again.stdout, again.stderr) == (f"{url}\n", "already running\n")
        assert call_cli("db", "status").returncode == 0
        assert call_cli("db", "migrate", "--yes").stderr.startswith("nothing to do: ")
        busy = run_cli("db", "start", "--foreground")
        assert busy.returncode == 6
        assert "another process keeps it" in busy.stderr
        refused = call_cli("db", "stop", RMHDAG_DATABASE_URL=url)
        assert refused.returncode == 6
        assert "the embedded one is not used" in refused.stderr
    finally:
        stopped = call_cli("db", "stop")
    assert (stopped.returncode, stopped.stderr) == (0, "stopped\n")
    assert call_cli("db", "stop").stderr == "nothing to do: it is not running\n"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=2)
    assert not (home / "data" / "postgres" / "keeper.pid").exists()


def test_a_data_folder_that_cannot_be_made(call_cli: RunCli, home: Path) -> None:
    (home / "data").write_text("in the way")
    done = call_cli("db", "migrate", "--yes")
    assert done.returncode == 69
    assert "cannot create the data folder" in done.stderr
    started = call_cli("db", "start")
    assert started.returncode == 69

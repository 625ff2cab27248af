"""Other people's words reach a terminal as words: no command lets through what a terminal would obey."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pydantic import TypeAdapter, ValidationError

from rmhdag.cli.commands import COMMANDS
from rmhdag.cli.output import emit_json, show
from rmhdag.cli.tables import lay_out, lay_out_facts
from rmhdag.models.api.assets import WorkOrderBody
from rmhdag.models.api.callbacks import EndpointDisabling
from rmhdag.models.api.jobs import CancelRequest, JobSubmission
from rmhdag.models.api.worker_calls import OfferedHandler, RegisterWorker
from rmhdag.models.events import ErrorKind
from rmhdag.models.plain_text import DECEIVING, DECEIVING_IN_LINE
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from tests.api.serving import served
from tests.cli.conftest import RunCli, plain_environment
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import QUEUE, Platform

HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x9b31m\r\x08\x7f\u202etxt\u2066\u200b\U000e0041\nFORGED line"
# By these, rows are found or joined, or they are one of a few words.
KEPT = {"node_id", "namespace", "workflow_id", "handler", "queue", "queue_name", "status", "type", "key_hash", "kind"}
# Commands that show nothing that others wrote, or that run until they are stopped.
SILENT = {"up", "demo", "orchestrator", "worker", "api", "validate", "graph", "schema", "sample-data", "simulate"}
SILENT |= {"bench", "chaos", "prune", "db", "doctor", "config", "version", "rollback", "catalogue", "gateway", "serve"}


def is_deceiving(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") and character not in "\t\n"


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.fixture
def job_id(platform: Platform) -> str:
    """A failed job, with hostile words in every column that takes them."""
    seat = platform.seat()
    job = platform.submit(workflow(only=task()), correlation_id="c")
    seat.work()
    platform.fail(*platform.claim(), kind=ErrorKind.NON_RETRYABLE)
    seat.work()
    platform.submit(workflow(only=task()))
    api_keys.create_key(platform.conn, "holder", [Scope.READ], created_by="test")
    platform.conn.execute(
        "INSERT INTO dag_task_logs (job_id, node_id, task_id, lease_epoch, chunk_index, line_count, content)"
        " VALUES (%s, 'only', 't', 1, 0, 2, %s)",
        [job, HOSTILE],
    )
    poison(platform.conn)
    result = json.dumps({"text": HOSTILE, HOSTILE: 1})
    platform.conn.execute("UPDATE dag_jobs SET result_data = %s::jsonb, error_message = %s", [result, HOSTILE])
    return job


def poison(conn: psycopg.Connection[Any]) -> None:
    """As somebody with the database's password could; what a constraint refuses stays as it is."""
    columns = conn.execute(
        "SELECT c.table_name, c.column_name, coalesce(c.character_maximum_length, 100)"
        " FROM information_schema.columns AS c WHERE c.table_schema = 'dagapp'"
        " AND c.data_type IN ('character varying', 'text')"
    ).fetchall()
    reached = set()
    for table, column, length in columns:
        if column in KEPT or (column.endswith(("_id", "_hash")) and column != "correlation_id"):
            continue
        statement = sql.SQL("UPDATE {} SET {} = %s").format(sql.Identifier(table), sql.Identifier(column))
        try:
            with conn.transaction():
                if conn.execute(statement, [HOSTILE[:length]]).rowcount:
                    reached.add(f"{table}.{column}")
        except psycopg.Error:
            continue
    wanted = {"dag_jobs.submitted_by", "dag_jobs.correlation_id", "dag_workers.host", "dag_workers.version"}
    assert wanted | {"dag_node_states.error_message", "dag_orchestrators.host", "dag_api_keys.name"} <= reached


def commands(job: str) -> list[list[str]]:
    """Every command that shows what others wrote, and what it needs."""
    return [
        ["jobs"],
        ["job", job],
        ["job", job, "--node", "only"],
        ["job", job, "--events"],
        ["job", job, "--wait"],
        ["logs", job],
        ["workers"],
        ["orchestrators"],
        ["queues"],
        ["dead-letters"],
        ["callbacks"],
        ["keys", "list"],
        ["approvals"],
        ["audit"],
        ["attention"],
        ["search", "under"],
        ["footprints"],
        ["quotas", "show"],
        ["workflows"],
        ["workflows", "show", "under_test"],
        ["assets"],
        ["asset", "show", "0" * 32],
        ["retry", job, "--dry-run"],
        ["submit", HOSTILE.replace("\n", "")],
        ["cancel", job],
        ["label", job, "aoi=oslo", "--dry-run"],
        ["decide", job, "only", "approve"],
        ["storage", "ls", "bronze:c"],
        ["platforms", "list"],
        ["clients", "list"],
        ["services", "list"],
        ["promoted", "list"],
        ["unpublish", "0" * 32],
    ]


def test_all_commands_are_walked_over() -> None:
    assert {words[0] for words in commands("x")} | SILENT == set(COMMANDS)


@pytest.mark.parametrize("place", ["near", "far"])
def test_no_command_lets_hostile_words_through(
    platform: Platform, job_id: str, call_cli: RunCli, home: Path, place: str
) -> None:
    files = home / "files" / "bronze" / "c"
    files.mkdir(parents=True)
    (files / HOSTILE.replace("\n", "")).write_text("x")
    with served(platform.dsn, queues=[QUEUE]) as api:
        near = {"RMHDAG_DATABASE_URL": platform.dsn}
        far = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN, name="ada")}
        where = {"RMHDAG_STORAGE": str(home / "files"), "DAG_WORKER_QUEUE": QUEUE, **(near if place == "near" else far)}
        shown = 0
        for words in commands(job_id):
            for more in ([], ["--json"]):
                done = call_cli(*words, *more, **where)
                assert "defect" not in done.stderr, (words, done.stderr)
                output = done.stdout + done.stderr
                assert [c for c in output if is_deceiving(c)] == [], (words, more)
                assert not any(line.startswith("FORGED") for line in output.splitlines()), (words, output)
                if more and done.stdout:
                    for line in done.stdout.splitlines():
                        json.loads(line)
                shown += "PWNED" in output
    assert shown > 10, "they are shown, cleaned"


def test_a_terminal_gets_our_own_styles_only(platform: Platform, job_id: str, home: Path) -> None:
    environment = plain_environment(home) | {"RMHDAG_DATABASE_URL": platform.dsn, "TERM": "xterm-256color"}
    for words in (["jobs"], ["job", job_id], ["workers"], ["job", job_id, "--wait"], ["jobs", "--json"]):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "rmhdag.cli", *words]
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=theirs, stderr=theirs)
        os.close(theirs)
        output = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            output += part
        process.wait()
        os.close(ours)
        text = output.decode().replace("\r\n", "\n")
        for piece in text.split("\x1b")[1:]:
            assert piece[0] == "[", piece[:20]
            assert piece.lstrip("[0123456789;")[0] in "mGKJA", piece[:20]
        assert "\x1b[2J" not in text
        assert [c for c in text if is_deceiving(c) and c != "\x1b"] == []


def test_the_characters_are_those_of_unicode() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        assert bool(DECEIVING.match(character)) == is_deceiving(character), hex(code)
    assert DECEIVING_IN_LINE.match("\n")
    assert DECEIVING_IN_LINE.match("\t")


def test_text_and_json_keep_their_meaning() -> None:
    assert show("Übergröße 日本 🌍 a\tb\n") == "Übergröße 日本 🌍 a\tb\n"
    assert show(HOSTILE) == "�]0;PWNED��[2J�31m���" + "�txt���" + "\nFORGED line"
    out = io.StringIO()
    with redirect_stdout(out):
        emit_json({"text": HOSTILE})
    assert json.loads(out.getvalue()) == {"text": HOSTILE}
    assert not any(map(is_deceiving, out.getvalue()))


def test_a_value_makes_no_lines_of_its_own() -> None:
    assert lay_out(("A", "B"), [("x\nFORGED", "y")]).splitlines()[1] == "x FORGED  y"
    assert lay_out_facts([("error", "a\nstatus completed")], 6) == "error  a\n       status completed\n"


@pytest.mark.parametrize(
    "character", ["\x1b", "\n", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028", "\0"]
)
def test_names_with_hidden_characters_are_refused_at_the_edge(character: str) -> None:
    bad = f"a{character}b"
    for field in ("workflow_id", "fairness_key", "correlation_id", "idempotency_key", "submitted_by", "callback_url"):
        with pytest.raises(ValidationError) as caught:
            JobSubmission.model_validate({"workflow_id": "w", field: bad})
        assert caught.value.errors()[0]["loc"] == (field,)
    for body in ({"platform_id": bad}, {"platform_refs": {"a": bad}}, {"platform_refs": {bad: "a"}}):
        with pytest.raises(ValidationError):
            WorkOrderBody.model_validate({"workflow_id": "w", **body})
    worker = {"worker_id": "0" * 32, "host": "h", "version": "1", "slots": 1, "queues": ["q"]}
    TypeAdapter(RegisterWorker).validate_python(worker)
    for more in ({"host": bad}, {"version": bad}):
        with pytest.raises(ValidationError):
            RegisterWorker.model_validate(worker | more)
    with pytest.raises(ValidationError):
        OfferedHandler.model_validate({"handler": "a.b", "version": bad})
    with pytest.raises(ValidationError):
        EndpointDisabling.model_validate({"reason": bad})


def test_reasons_may_have_several_lines() -> None:
    assert CancelRequest(reason="one\n\ttwo").reason == "one\n\ttwo"
    with pytest.raises(ValidationError, match=r"invisible character U\+001B at position 2"):
        CancelRequest(reason="a\x1b[2J")

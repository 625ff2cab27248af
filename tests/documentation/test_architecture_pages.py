"""What the architecture pages print runs: code with the names that its page speaks of, JSON and SQL as they stand."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_type_hints

import psycopg
import pytest
from pydantic import TypeAdapter

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError, ServerSettings, find_server
from rmhdag.engine.inputs import Start
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.models import tasks
from rmhdag.models.references import as_reference
from rmhdag.storage.namespaces import check_shares
from rmhdag.store.channels import queue_channel
from rmhdag.workflow import load, shipped_handlers
from tests.conftest import required_binaries
from tests.documentation.fences import ROOT, Fence, fences_of
from tests.documentation.terminal import open_terminal
from tests.documentation.test_deployment import check_command

TEXT = "workflow_id: flow\nnodes: {say: {handler: echo, queue: light-tasks, params: {region: '{{ env.REGION }}'}}}\n"


def only(page: str, language: str) -> Fence:
    (fence,) = fences_of(f"docs/architecture/{page}.md", language)
    return fence


def execute(fence: Fence, names: Mapping[str, Any]) -> dict[str, Any]:
    """The names after the code has run, with its place in the page for tracebacks."""
    after = dict(names)
    exec(compile("\n" * fence.line + fence.text, str(ROOT / fence.page), "exec"), after)
    return after


def test_a_definition_is_loaded() -> None:
    names = execute(
        only("workflow-language", "python"), {"load": load, "shipped_handlers": shipped_handlers, "text": TEXT}
    )
    assert names["loaded"].definition.workflow_id == "flow"


def test_the_engine_applies_a_message() -> None:
    run = JobRun(Plan(load(TEXT, env_names={"REGION"}).definition), JobFacts("0" * 32, {}, env={"REGION": "north"}))
    names = {"run": run, "message": Start(), "now": datetime.now(UTC), "jitter": 0.5}
    assert execute(only("engine", "python"), names)["effects"]


def test_a_table_is_declared() -> None:
    shown = execute(only("schema", "python"), vars(tasks))["Checkpoint"]
    assert shown.table == tasks.Checkpoint.table
    real = get_type_hints(tasks.Checkpoint, include_extras=True)
    for name, annotation in get_type_hints(shown, include_extras=True).items():
        assert real[name] == annotation


def test_an_embedded_server_is_started() -> None:
    with open_terminal() as terminal:
        names = {"find_server": find_server, "ServerSettings": ServerSettings, "psycopg": psycopg}
        server = execute(only("embedded-postgres", "python"), {**names, "folder": terminal.folder / "data"})["server"]
        with pytest.raises(EmbeddedPostgresError, match="is not started"):
            server.dsn()


def test_a_doorbell_is_waited_for(database: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    names = {"Doorbell": Doorbell, "queue_channel": queue_channel, "dsn": database, "schema": "dagapp"}
    after = execute(only("doorbell", "python"), {**names, "other_descriptor": reading})
    after["bell"].close()
    os.close(reading)
    os.close(writing)
    assert after["rung"] in (True, False)


def test_a_callback_has_the_members_that_are_written() -> None:
    body = json.loads(only("callbacks", "json").text)
    statement = (ROOT / "src" / "rmhdag" / "store" / "callbacks.sql").read_text(encoding="utf-8")
    assert [name for name in body if f"'{name}'," not in statement] == []


def test_a_reference_is_one() -> None:
    reference = as_reference(json.loads(only("payloads", "json").text))
    assert reference is not None
    assert reference.size_bytes == 123456


def test_shares_are_accepted() -> None:
    assert len(check_shares(json.loads(only("storage", "json").text))) == 2


def test_a_role_for_a_pooler_is_set_up() -> None:
    """The superuser of an embedded server has the name of the page's role."""
    statements = only("pooler", "sql").text
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        with psycopg.connect(server.dsn("rmhdag"), autocommit=True) as conn:
            for statement in filter(str.strip, statements.split(";")):
                conn.execute(statement.encode())
        with psycopg.connect(server.dsn("rmhdag")) as conn:
            assert conn.execute("SHOW search_path").fetchone() == ("dagapp",)
            assert conn.execute("SHOW lock_timeout").fetchone() == ("2s",)


def test_keys_are_created_and_listed() -> None:
    with open_terminal() as terminal:
        terminal.type("rmhdag up")
        key, listed = terminal.run(only("authentication", "sh"))
    assert key.startswith("rmhdag_")
    assert "ci" in listed


def test_the_settings_for_an_issuer_are_settings() -> None:
    fields = {variable: name for name in Settings.model_fields for variable in variables_of(name)}
    for line in only("authentication", "ini").text.splitlines():
        variable, _, value = line.partition("=")
        annotation = Settings.model_fields[fields[variable]].annotation
        TypeAdapter(cast(Any, annotation)).validate_python(json.loads(value) if value.startswith("{") else value)


@pytest.mark.parametrize("command", only("access", "sh").commands())
def test_the_commands_for_roles_exist(command: str) -> None:
    """They name a server of their own, so only their words are checked."""
    setting, program, *words = shlex.split(command)
    assert setting.partition("=")[0] in variables_of("database_url")
    assert program == "rmhdag"
    check_command(words)


def test_the_handlers_of_the_page_can_be_declared(tmp_path: Path) -> None:
    """The first one runs in test_handlers_page; the others are declared, and one is asked to stop."""
    from rmhdag.testing import HandlerBench

    _, warns, stops = fences_of("docs/architecture/handlers.md", "python")
    bench = HandlerBench(tmp_path)
    check = execute(warns, {"__name__": "page_of_handlers"})["check"]
    assert [warning.code for warning in bench.run(check, {}).warnings] == ["RASTER_EMPTY"]
    parts = execute(stops, {"__name__": "page_of_handlers"})["process_parts"]
    stopped = bench.run(parts, {"parts": ["a", "b", "c"]}, stop_when=lambda seen: len(seen.progress_calls) == 2)
    assert stopped.stopped
    assert stopped.checkpoints[-1].data == {"done": 2}
    resumed = bench.run(parts, {"parts": ["a", "b", "c"]}, resume=stopped.checkpoints[-1])
    assert resumed.output == {"processed": 3}

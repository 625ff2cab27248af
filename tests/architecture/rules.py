"""The rules of the house as functions: a path and its text go in, sentences about what is wrong come out."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Who may import whom inside rmhdag. A package that is not here has no rule yet and must get one. A room of a package
# may have a rule of its own (`lab.bench`); who may import a package may import its rooms.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "models": frozenset(),
    "machine": frozenset(),
    "workflow": frozenset({"models"}),
    "engine": frozenset({"models", "workflow"}),
    "assets": frozenset({"models"}),
    "picture": frozenset({"models", "workflow"}),
    "store": frozenset({"models", "observability"}),
    "messaging": frozenset({"models", "store", "observability"}),
    "storage": frozenset({"models", "observability"}),
    "postgis": frozenset({"models"}),
    "catalogue": frozenset({"models", "storage"}),
    "handlers": frozenset({"models", "machine", "storage", "catalogue", "assets", "observability", "postgis"}),
    "testing": frozenset({"models", "workflow", "engine", "handlers", "storage", "postgis"}),
    "worker": frozenset({"models", "machine", "messaging", "store", "handlers", "storage", "observability", "postgis"}),
    "services": frozenset({"models", "workflow", "engine", "assets", "store", "observability"}),
    "views": frozenset({"models", "workflow", "engine", "assets", "picture", "store", "services"}),
    "orchestrator": frozenset(
        {"models", "workflow", "engine", "assets", "picture", "store", "services", "messaging", "storage", "catalogue"}
    )
    | {"observability", "postgis", "machine"},
    "api": frozenset({"models", "workflow", "engine", "assets", "picture", "store", "services", "views", "messaging"})
    | {"machine", "observability", "orchestrator", "storage", "ui"},
    "ui": frozenset(),
    "client": frozenset({"models"}),
    "gateway": frozenset({"models", "machine"}),
    "serving": frozenset({"models", "machine", "storage", "catalogue"}),
    "observability": frozenset({"models"}),
    "embedded": frozenset({"models", "machine"}),
    "sampledata": frozenset(),
    "lab": frozenset(),
    "lab.simulation": frozenset({"models", "workflow", "engine"}),
    "lab.bench": frozenset({"models", "machine", "workflow", "engine", "store", "messaging", "storage"})
    | {"orchestrator", "services", "worker", "handlers", "embedded", "api", "observability", "gateway"},
    "lab.chaos": frozenset({"models", "workflow", "engine", "store", "messaging", "orchestrator", "worker", "handlers"})
    | {"embedded", "lab.bench", "services"},
    "cli": frozenset({"models", "workflow", "engine", "assets", "picture", "lab", "store", "messaging"})
    | frozenset({"handlers", "worker", "orchestrator", "observability", "embedded", "api", "client"})
    | {"machine", "sampledata", "storage", "catalogue", "services", "gateway", "serving", "postgis"},
}

# Packages that decide and never act.
PURE = frozenset({"engine", "workflow", "assets", "picture"})
IMPURE_MODULES = frozenset(
    "time random asyncio threading multiprocessing concurrent secrets socket ssl subprocess sched importlib "
    "psycopg psycopg_pool sqlalchemy alembic httpx requests urllib3 aiohttp anyio trio fastapi uvicorn starlette "
    "aio_pika pika azure obstore boto3".split()
)
IMPURE_NAMES = frozenset(
    "datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today "
    "uuid.uuid1 uuid.uuid4 os.urandom os.environ os.getenv urllib.request builtins.__import__".split()
)

# Tests that wait for the clock, skip by themselves or talk to pretended parts prove little.
UNTESTING_NAMES = frozenset(
    "pytest.skip pytest.importorskip pytest.mark.skip pytest.mark.skipif pytest.mark.xfail "
    "unittest.mock unittest.skip time.sleep asyncio.sleep mock pytest_mock".split()
)
SKIP_MECHANISM = PurePosixPath("tests/conftest.py")

MOST_LINES = 600
CODE_SUFFIXES = frozenset({".py", ".sql", ".sh", ".js", ".css", ".html"})
EMPTY_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers", "base", "misc"})

# Local names that say what happened to a value and not what it is. `left` beside `right` or `top` is a place.
PARTICIPLES = frozenset(
    "found given one wanted told said left made known asked seen shown taken kept heard meant sent".split()
)
PLACES = frozenset({"right", "top"})
BINDING = ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.FunctionDef | ast.AsyncFunctionDef

_MACHINE = re.compile(
    r"(?<![\w.$}])/(?:work|root|home/\w+|Users/\w+)/|/tmp/(?:venv|brief)|/opt/(?:pypi|wheels)|file:/{3}"
    r"|\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org)\b"
)
NOT_OURS = frozenset(
    ".git .venv __pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist .rmhdag node_modules".split()
)


def repository_files(root: Path) -> Iterator[PurePosixPath]:
    """Every file that belongs to us, as a path relative to the root."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in NOT_OURS and not name.endswith(".egg-info"))
        for name in sorted(names):
            if not name.endswith((".pyc", ".lock")) and name != "pylock.toml" and name not in NOT_OURS:
                yield PurePosixPath(Path(folder, name).relative_to(root).as_posix())


def package_of(path: PurePosixPath) -> str | None:
    """`engine` for src/rmhdag/engine/…, `lab.bench` where that room has its own rule; none for what is outside."""
    parts = path.parts
    if len(parts) <= 3 or parts[:2] != ("src", "rmhdag"):
        return None
    room = ".".join(parts[2:4])
    return room if room in MAY_IMPORT else parts[2]


def check_imports(path: PurePosixPath, source: str) -> list[str]:
    """Imports between our packages, against the table."""
    package = package_of(path)
    if package is None:
        return []
    if package not in MAY_IMPORT:
        return [f"{path}:1: package {package} has no import rule; give it one in MAY_IMPORT"]
    problems = []
    for line, name in _imported_names(path, ast.parse(source)):
        parts = name.split(".")
        if parts[0] != "rmhdag" or len(parts) < 2 or parts[1].startswith("__"):
            continue
        rooms = {parts[1], ".".join(parts[1:3])}
        if rooms.isdisjoint({package, *MAY_IMPORT[package]}):
            room = ".".join(parts[1:3])
            problems.append(
                f"{path}:{line}: {package} must not import rmhdag.{room if room in MAY_IMPORT else parts[1]}"
            )
    return problems


def check_purity(path: PurePosixPath, source: str) -> list[str]:
    """Clock, chance, concurrency and drivers, in packages that only decide."""
    if package_of(path) not in PURE:
        return []
    tree = ast.parse(source)
    problems = [
        f"{path}:{line}: {package_of(path)} is pure and must not import {name}"
        for line, name in _imported_names(path, tree)
        if name.split(".")[0] in IMPURE_MODULES
    ]
    problems += [
        f"{path}:{line}: {package_of(path)} is pure and must not use {name}"
        for line, name in _used_names(tree)
        if _is_among(name, IMPURE_NAMES)
    ]
    return problems


def check_testing(path: PurePosixPath, source: str) -> list[str]:
    """Skips past the one mechanism, sleeps and mocks, in tests."""
    if path.parts[0] != "tests" or path.suffix != ".py" or path == SKIP_MECHANISM:
        return []
    tree = ast.parse(source)
    names = [*_imported_names(path, tree), *_used_names(tree)]
    found = {(line, name) for line, name in names if _is_among(name, UNTESTING_NAMES)}
    return [f"{path}:{line}: tests must not use {name}" for line, name in sorted(found)]


def check_length(path: PurePosixPath, source: str) -> list[str]:
    lines = source.count("\n")
    if path.suffix not in CODE_SUFFIXES or lines <= MOST_LINES:
        return []
    return [f"{path}: {lines} lines; the most is {MOST_LINES}"]


def check_name(path: PurePosixPath) -> list[str]:
    """Names that say nothing about what is inside."""
    stems = [*path.parts[:-1], path.name.split(".")[0]]
    bad = [stem for stem in stems if stem in EMPTY_NAMES or stem.rsplit("_", 1)[-1] in EMPTY_NAMES - {"base"}]
    return [f"{path}: the name {stem} says nothing; name what it holds" for stem in bad]


def check_local_names(path: PurePosixPath, source: str) -> list[str]:
    """Participles as names of parameters, variables and nested functions of the product."""
    if path.parts[:2] != ("src", "rmhdag") or "expressions" in path.parts:
        return []
    problems: dict[tuple[int, str], str] = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = list(_bound_names(function))
            is_place = not PLACES.isdisjoint(name for _, name in names)
            for line, name in names:
                if name in PARTICIPLES and not (name == "left" and is_place):
                    problems[line, name] = f"{path}:{line}: the local name {name} is no noun; name what the value is"
    return [problems[key] for key in sorted(problems)]


def _bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[tuple[int, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, BINDING) and node is not function and node.name:
            yield node.lineno, node.name


def check_machine(path: PurePosixPath, source: str) -> list[str]:
    """Paths of one machine and hosts of package registries."""
    return [
        f"{path}:{number}: names a machine's path or a registry's host: {found[0]}"
        for number, line in enumerate(source.splitlines(), 1)
        if (found := _MACHINE.search(line))
    ]


def check_empty_packages(paths: list[PurePosixPath], folders: list[PurePosixPath]) -> list[str]:
    """Folders of the package that hold nothing but, at most, an __init__.py."""
    filled = {parent for path in paths if path.name != "__init__.py" for parent in path.parents}
    return [f"{folder}: holds nothing; fill it or remove it" for folder in folders if folder not in filled]


def _is_among(name: str, banned: frozenset[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in banned)


def _imported_names(path: PurePosixPath, tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(path, node)
            for alias in node.names:
                yield node.lineno, f"{origin}.{alias.name}"


def _origin(path: PurePosixPath, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = path.parts[1:-1] if path.parts[0] == "src" else path.parts[:-1]
    kept = package[: len(package) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _used_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Dotted names as they are used, with aliases of imports undone: `dt.now` is `datetime.datetime.now`."""
    meaning: dict[str, str] = {"__import__": "builtins.__import__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meaning[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = _dotted(node)
            first, _, rest = name.partition(".")
            if first in meaning:
                yield node.lineno, f"{meaning[first]}.{rest}" if rest else meaning[first]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""

"""The repository keeps the rules of the house, and each rule can fail."""

from pathlib import Path, PurePosixPath

import pytest

from tests.architecture import rules

ROOT = Path(__file__).resolve().parents[2]
FILES = list(rules.repository_files(ROOT))
PYTHON = [path for path in FILES if path.suffix == ".py"]


def read(path: PurePosixPath) -> str:
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_the_walk_sees_the_repository() -> None:
    assert PurePosixPath("src/rmhdag/__init__.py") in PYTHON
    assert PurePosixPath("tests/architecture/rules.py") in PYTHON
    assert not any(".venv" in path.parts for path in FILES)


def test_packages_import_only_what_they_may() -> None:
    assert [problem for path in PYTHON for problem in rules.check_imports(path, read(path))] == []


def test_pure_packages_are_pure() -> None:
    assert [problem for path in PYTHON for problem in rules.check_purity(path, read(path))] == []


def test_tests_neither_sleep_nor_pretend_nor_skip_by_themselves() -> None:
    assert [problem for path in PYTHON for problem in rules.check_testing(path, read(path))] == []


def test_no_file_is_too_long() -> None:
    assert [problem for path in FILES for problem in rules.check_length(path, read(path))] == []


def test_names_say_something() -> None:
    assert [problem for path in FILES for problem in rules.check_name(path)] == []


def test_local_names_are_nouns() -> None:
    assert [problem for path in PYTHON for problem in rules.check_local_names(path, read(path))] == []


def test_nothing_names_a_machine_or_a_registry() -> None:
    assert [problem for path in FILES for problem in rules.check_machine(path, read(path))] == []


def test_no_package_is_empty() -> None:
    package = ROOT / "src" / "rmhdag"
    folders = [
        PurePosixPath(folder.relative_to(ROOT).as_posix())
        for folder in package.rglob("*")
        if folder.is_dir() and rules.NOT_OURS.isdisjoint(folder.relative_to(package).parts)
    ]
    assert folders
    assert rules.check_empty_packages(FILES, folders) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("src/rmhdag/models/jobs.py", "import rmhdag.workflow"),
        ("src/rmhdag/models/jobs.py", "from rmhdag import engine"),
        ("src/rmhdag/workflow/parser.py", "from rmhdag.engine.graph import Graph"),
        ("src/rmhdag/engine/graph.py", "def f() -> None:\n    from rmhdag.store import pool"),
        ("src/rmhdag/engine/deep/graph.py", "from ...store import pool"),
        ("src/rmhdag/engine/graph.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rmhdag.cli"),
        ("src/rmhdag/workflow/parser.py", "from rmhdag.picture import layout"),
        ("src/rmhdag/storage/zones.py", "from rmhdag.catalogue import static"),
        ("src/rmhdag/catalogue/static.py", "from rmhdag.store import pgstac"),
        ("src/rmhdag/store/schema.py", "from rmhdag.workflow import parser"),
        ("src/rmhdag/lab/simulation/world.py", "import rmhdag.store.schema"),
        ("src/rmhdag/lab/simulation/world.py", "from rmhdag.lab.bench import run"),
        ("src/rmhdag/lab/bench/run.py", "from rmhdag.lab import chaos"),
        ("src/rmhdag/orchestrator/loop.py", "from rmhdag.lab.bench import run"),
        ("src/rmhdag/embedded/launcher.py", "from rmhdag.store import schema"),
        ("src/rmhdag/observability/logs.py", "from rmhdag.store import schema"),
        ("src/rmhdag/unheard_of/thing.py", ""),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    assert len(rules.check_imports(PurePosixPath(path), source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("src/rmhdag/cli/main.py", "from rmhdag.engine import graph\nimport rmhdag.embedded"),
        ("src/rmhdag/engine/graph.py", "from rmhdag import __version__\nfrom rmhdag.models import states"),
        ("src/rmhdag/engine/graph.py", "from rmhdag.engine import effects\nfrom . import inputs"),
        ("src/rmhdag/lab/simulation/world.py", "import random\nfrom rmhdag.engine import graph"),
        ("src/rmhdag/lab/chaos/campaign.py", "from rmhdag.lab.bench.run import run\nfrom rmhdag.lab import bench"),
        ("src/rmhdag/cli/chaos.py", "from rmhdag.lab.chaos.campaign import run"),
        ("tests/engine/test_graph.py", "from rmhdag.store import schema"),
    ],
)
def test_an_allowed_import_is_left_alone(path: str, source: str) -> None:
    assert rules.check_imports(PurePosixPath(path), source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import random",
        "import asyncio",
        "import threading",
        "import secrets",
        "import concurrent.futures",
        "import psycopg.rows",
        "from sqlalchemy import text",
        "import httpx",
        "import importlib",
        "from datetime import datetime\nx = datetime.now()",
        "from datetime import datetime as dt\nx = dt.utcnow()",
        "import datetime\nx = datetime.datetime.now(datetime.UTC)",
        "from datetime import date\nx = date.today()",
        "import uuid\nx = uuid.uuid4()",
        "from uuid import uuid1\nx = uuid1()",
        "import os\nx = os.environ",
        "x = __import__('ti' + 'me')",
    ],
)
@pytest.mark.parametrize("package", ["engine", "workflow", "assets", "picture"])
def test_impurity_is_found(package: str, source: str) -> None:
    assert rules.check_purity(PurePosixPath(f"src/rmhdag/{package}/thing.py"), source) != []


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import datetime, timedelta\nx = datetime.fromisoformat('2026-01-01')",
        "import uuid\nx = uuid.uuid5(uuid.NAMESPACE_OID, 'a')",
        "class Clock:\n    def now(self) -> int:\n        return 0\nx = Clock().now()",
    ],
)
def test_purity_is_left_alone(source: str) -> None:
    assert rules.check_purity(PurePosixPath("src/rmhdag/engine/thing.py"), source) == []


def test_other_packages_may_look_at_the_clock() -> None:
    assert rules.check_purity(PurePosixPath("src/rmhdag/store/pool.py"), "import time") == []


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\npytest.skip('later')",
        "import pytest\n@pytest.mark.skipif(True, reason='x')\ndef test() -> None: ...",
        "from pytest import importorskip\nimportorskip('x')",
        "from unittest import mock",
        "from unittest.mock import Mock",
        "import time\ntime.sleep(1)",
        "from asyncio import sleep",
    ],
)
def test_a_test_that_proves_little_is_found(source: str) -> None:
    assert rules.check_testing(PurePosixPath("tests/engine/test_thing.py"), source) != []


def test_the_skip_mechanism_may_skip() -> None:
    assert rules.check_testing(rules.SKIP_MECHANISM, "import pytest\npytest.skip('x')") == []


def test_a_long_file_is_found() -> None:
    assert rules.check_length(PurePosixPath("src/rmhdag/engine/graph.py"), "x = 1\n" * 601) != []
    assert rules.check_length(PurePosixPath("src/rmhdag/engine/graph.py"), "x = 1\n" * 600) == []
    assert rules.check_length(PurePosixPath("requirements/dev.txt"), "x\n" * 2_000) == []


@pytest.mark.parametrize(
    "path", ["src/rmhdag/utils/x.py", "src/rmhdag/store/base.py", "tests/sql_helpers.py", "a/misc.md"]
)
def test_an_empty_name_is_found(path: str) -> None:
    assert len(rules.check_name(PurePosixPath(path))) == 1


def test_a_telling_name_is_left_alone() -> None:
    assert rules.check_name(PurePosixPath("src/rmhdag/store/database.py")) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f() -> None:\n    found = 1",
        "def f(given: int) -> None: ...",
        "def f(**wanted: int) -> None: ...",
        "async def f() -> None:\n    for one in (): ...",
        "def f() -> list[int]:\n    return [one for one in ()]",
        "f = lambda told: 1",
        "def f() -> None:\n    with open('x') as made: ...",
        "def f() -> None:\n    if (left := 1): ...",
        "def f() -> None:\n    try: ...\n    except OSError as said: ...",
        "def f(x: object) -> None:\n    match x:\n        case [known]: ...",
        "class A:\n    def f(self) -> None:\n        def seen() -> None: ...",
    ],
)
def test_a_participle_as_a_local_name_is_found(source: str) -> None:
    assert len(rules.check_local_names(PurePosixPath("src/rmhdag/engine/thing.py"), source)) == 1
    assert rules.check_local_names(PurePosixPath("tests/engine/thing.py"), source) == []


def test_a_noun_as_a_local_name_is_left_alone() -> None:
    places = "def f(top: int) -> int:\n    left = 1\n    return left"
    public = "class A:\n    found: int\n    def told(self) -> int:\n        return self.found"
    for source in (places, public, "found = 1", "def f() -> int:\n    row = 1\n    return row"):
        assert rules.check_local_names(PurePosixPath("src/rmhdag/engine/thing.py"), source) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main/x",
        'open("/' + 'root/.config")',
        "/home/" + "somebody/rmhdag",
        "--index https://pypi" + ".org/simple",
        "https://files.python" + "hosted.org/packages/a",
        "file:" + "///srv/mirror",
    ],
)
def test_a_machine_is_found(text: str) -> None:
    assert len(rules.check_machine(PurePosixPath("docs/x.md"), f"first\n{text}\n")) == 1


def test_an_ordinary_path_is_left_alone() -> None:
    assert (
        rules.check_machine(PurePosixPath("x"), "GET https://example.org/work/1\nsrc/root/x\n/var/lib/rmhdag\n") == []
    )


def test_an_empty_package_is_found() -> None:
    paths = [PurePosixPath("src/rmhdag/a/__init__.py"), PurePosixPath("src/rmhdag/b/thing.py")]
    folders = [PurePosixPath("src/rmhdag/a"), PurePosixPath("src/rmhdag/b"), PurePosixPath("src/rmhdag/c")]
    assert len(rules.check_empty_packages(paths, folders)) == 2

"""A workflow of the size of real scientific ones, from the file to its result: real processes, real PostgreSQL."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.lab.bench.montage import NAME_CHARACTERS, montage
from tests.cli.conftest import RunCli
from tests.cli.running import Up

TILES, DIFFERENCES = 312, 1_492
NODES = 2 * TILES + DIFFERENCES + 6


@pytest.fixture(scope="module")
def up(postgres: EmbeddedPostgres) -> Iterator[Up]:
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    running = Up(home, RMHDAG_DATABASE_URL=postgres.create_database("large_workflow"))
    yield running
    assert running.end() == 0
    postgres.drop_database("large_workflow")
    shutil.rmtree(home)


@pytest.fixture
def home(up: Up) -> Path:
    return up.home


def test_a_montage_run_of_2122_nodes_completes(up: Up, home: Path, run_cli: RunCli) -> None:
    assert NODES == 2_122
    text = montage(TILES, DIFFERENCES, queue="light-tasks")
    (home / "montage.yaml").write_text(text, encoding="utf-8")
    checked = run_cli("validate", "montage.yaml", **up.environment)
    assert f"valid (montage v1, {NODES} nodes)" in checked.stdout
    registered = run_cli("workflows", "register", "montage.yaml", **up.environment)
    assert registered.returncode == 0, registered.stderr

    done = run_cli("submit", "montage", "--wait", "--json", **up.environment)
    assert done.returncode == 0, done.stderr
    job_id = json.loads(done.stdout)["job_id"]

    shown = run_cli("job", job_id, "--json", **up.environment)
    job = json.loads(shown.stdout)
    assert job["status"] == "completed"
    assert job["result_data"] == {"picture": "M42.png"}
    viewer = next(line.strip()[:-1] for line in text.splitlines() if line.startswith("  mViewer"))
    assert len(viewer) == NAME_CHARACTERS
    node = run_cli("job", job_id, "--node", viewer, "--json", **up.environment)
    assert json.loads(node.stdout)["status"] == "completed"

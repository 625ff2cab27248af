"""Files that nobody should send are refused with their sentence, at once, in little memory; none kills the process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmhdag.handlers.raster_limits import RasterLimits
from tests.handlers.raster import validating_process
from tests.handlers.raster.hostile_files import FILES, Hostile, write_all

CONTAINER = "in"
SAFE_VARIABLES = ("PATH", "HOME", "LANG")


def run_validations(root: Path, names: list[str], before: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What a fresh process made of the files, up to the one that killed it."""
    written = root.parent / "outcomes.json"
    repository = str(Path(__file__).parents[3])
    environment = {name: os.environ[name] for name in SAFE_VARIABLES if name in os.environ}
    ended = subprocess.run(
        [*before, sys.executable, validating_process.__file__, str(root), CONTAINER, str(written)],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        cwd=root.parent,
        env={**environment, **RasterLimits().as_variables(), "PYTHONPATH": repository, "TMPDIR": str(root.parent)},
        timeout=100,
        check=False,
    )
    outcomes = [json.loads(line) for line in written.read_text().splitlines()]
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:], names[len(outcomes) :][:1])
    return outcomes


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "storage"
    write_all(folder / "bronze" / CONTAINER)
    return folder


@pytest.fixture(scope="module")
def outcomes(root: Path) -> dict[str, dict[str, Any]]:
    return {outcome["name"]: outcome for outcome in run_validations(root, [file.name for file in FILES])}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name[:40])
def test_file_is_refused_with_its_sentence(file: Hostile, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[file.name]
    if file.sentence is None:
        assert outcome["kind"] is None, outcome["message"]
        assert outcome["output"]["crs"] == "EPSG:32633"
        return
    assert outcome["kind"] == "non_retryable", outcome
    assert re.search(file.sentence, outcome["message"]), outcome["message"]
    assert outcome["message"].startswith(f"bronze/{CONTAINER}/{file.name} ")
    assert "/proc/" not in outcome["message"]

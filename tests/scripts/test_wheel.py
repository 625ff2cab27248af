"""The wheel holds the web interface, and no wheel is made without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from rmhdag.ui.assets import STATIC, read_bundle
from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "requirements/services.txt", "scripts/wheel_hook.py")


def build_wheel(project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    words = "-m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir".split()
    return subprocess.run([sys.executable, *words, str(folder), str(project)], capture_output=True, text=True)


def test_a_wheel_has_every_file_of_the_bundle_and_is_refused_without(tmp_path: Path) -> None:
    require(read_bundle() is not None, "the web interface is not built: scripts/build-ui")
    project = tmp_path / "project"
    # Without the rest of the package: what is tested is how it is packed.
    (project / "src/rmhdag").mkdir(parents=True)
    for part in PARTS:
        (project / part).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, project / part)
    shutil.copy(ROOT / ".gitignore", project / ".gitignore")
    shutil.copy(ROOT / "src/rmhdag/__init__.py", project / "src/rmhdag/__init__.py")
    refusal = build_wheel(project, tmp_path)
    assert refusal.returncode != 0
    assert "the web interface is not built: run scripts/build-ui" in refusal.stderr + refusal.stdout
    shutil.copytree(STATIC, project / "src/rmhdag/ui/static")
    result = build_wheel(project, tmp_path)
    assert result.returncode == 0, result.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    files = json.loads((STATIC / "manifest.json").read_text())["files"]
    for name in files:
        assert {f"rmhdag/ui/static/{name}{ending}" for ending in ("", ".gz", ".br")} <= names

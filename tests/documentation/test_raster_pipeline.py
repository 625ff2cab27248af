"""The page about rasters is true: its handler runs, its workflow is valid, its settings and sentences exist."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import rasterio

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.cli.workflow_files import check_file
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import DEFAULT_SEED, SAMPLES, Kind
from tests.cli.conftest import plain_environment
from tests.cli.running import SHORT_LEASES
from tests.handlers.raster.rasters import Bench
from tests.store.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "raster-pipeline.md").read_text(encoding="utf-8")
HANDLER = next(block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "@handler" in block)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.split("## A raster handler of your own")[1], re.M | re.S)
COMMANDS = [line for language, block in BLOCKS if not language for line in block.splitlines()]
(WORKFLOW,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)


def section(title: str) -> list[list[str]]:
    """The rows of the table below a heading, as cells."""
    body = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_handler_of_your_own_runs(tmp_path: Path) -> None:
    file = tmp_path / "greenness.py"
    file.write_text(HANDLER, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("greenness_of_the_page", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Annotations are looked up by the name of the module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    bench = Bench(tmp_path)
    write_sample(tmp_path / "multiband.tif", SAMPLES[Kind.MULTIBAND][0], 300, DEFAULT_SEED)
    source = bench.put(tmp_path / "multiband.tif")
    done = bench.run("my.greenness", source=source.model_dump(mode="json"), item_id="green")
    assert isinstance(done.output, dict)
    with rasterio.open(bench.path(done.output["greenness"])) as made:
        values = made.read(1, masked=True)
    assert -1 <= values.min() < 0 < values.max() <= 1
    assert values.mask.any()
    assert [record.type for record in done.records] == ["blob", "lineage"]


@pytest.fixture
def shell() -> Iterator[Shell]:
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    folder.chmod(0o755)
    made = Shell(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


def test_its_commands_do_what_the_page_says(shell: Shell) -> None:
    """As printed, one after the other, in a folder that has nothing but the two files."""
    (shell.folder / "greenness.py").write_text(HANDLER, encoding="utf-8")
    (shell.folder / "greenness.yaml").write_text(WORKFLOW, encoding="utf-8")
    told = [shell.run(line) for line in COMMANDS]
    assert [line.split("rmhdag ")[1].split()[0] for line in COMMANDS] == ["validate", "up", "sample-data", "submit"]
    assert "greenness.yaml: valid (greenness v1, 3 nodes)" in told[0]
    assert "greenness v1" in told[1]
    assert '"cog": {' in told[3]


class Shell:
    """A terminal: what does not end by itself goes on in the background once it is ready."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stay: list[subprocess.Popen[bytes]] = []
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = plain_environment(folder) | SHORT_LEASES | {"PATH": programs, "RMHDAG_API_PORT": "0"}

    def run(self, line: str) -> str:
        if " rmhdag up " not in line:
            done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self._environment, capture_output=True)
            assert done.returncode == 0, f"{line}: {done.stderr.decode()}"
            return done.stdout.decode()
        messages = self.folder / "up.messages"
        with messages.open("wb") as stream:
            process = subprocess.Popen(["bash", "-c", line], cwd=self.folder, env=self._environment, stderr=stream)
        self._stay.append(process)
        wait_until(lambda: process.poll() is not None or "Ctrl-C stops everything" in messages.read_text(), 90)
        assert process.poll() is None, messages.read_text()
        return messages.read_text()

    def close(self) -> None:
        for process in self._stay:
            process.terminate()
            assert process.wait(60) == 0


def test_settings_exist_and_have_these_defaults() -> None:
    known = {name: field for field in Settings.model_fields for name in variables_of(field)}
    rows = section("Settings")
    assert len(rows) >= 10
    for names, default, _ in rows:
        for name in re.findall(r"`(RMHDAG_\w+)`", names):
            assert name in known
            if default.isdigit():
                assert Settings.model_fields[known[name]].default == int(default)


def test_sentences_about_refused_files_are_those_of_the_code() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/rmhdag/handlers/raster").glob("*.py")]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    said = [phrase for row in section("Why was my file refused?") for phrase in re.findall(r"`([^`]+)`", row[0])]
    assert len(said) >= 10
    assert [phrase for phrase in said if not any(phrase in text for text in texts)] == []


@pytest.mark.parametrize("workflow", ["raster_processing", "raster_ingest"])
def test_workflows_of_the_page_take_these_parameters(workflow: str) -> None:
    definition = check_file(str(ROOT / "src" / "rmhdag" / "workflows" / f"{workflow}.yaml")).definition
    assert definition is not None
    calls = re.findall(rf"submit {workflow} ([^\n\\]*)", PAGE)
    assert calls
    given = [set(re.findall(r"(\w+)=", call)) for call in calls]
    required = {name for name, declared in definition.inputs.items() if declared.required}
    assert all(required <= names <= set(definition.inputs) for names in given)

"""The page about rasters is true: its handler runs, its workflow is valid, its settings and sentences exist."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import rasterio

from rmhdag.cli.settings import Settings, variables_of
from rmhdag.cli.workflow_files import check_file
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import DEFAULT_SEED, SAMPLES, Kind
from tests.documentation.fences import fences_of
from tests.documentation.terminal import open_terminal
from tests.handlers.raster.rasters import Bench
from tests.store.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
NAME = "docs/raster-pipeline.md"
PAGE = (ROOT / NAME).read_text(encoding="utf-8")
HANDLER = next(block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "@handler" in block)
AT_THE_HANDLER = PAGE.count("\n", 0, PAGE.index("## A raster handler of your own"))
BEFORE_THE_HANDLER = [fence for fence in fences_of(NAME, "sh") if fence.line < AT_THE_HANDLER]
OF_THE_HANDLER = [fence for fence in fences_of(NAME, "sh") if fence.line > AT_THE_HANDLER]
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


def test_its_commands_do_what_the_page_says() -> None:
    """As printed, one after the other, in a folder that has nothing but the two files."""
    check, submit = OF_THE_HANDLER
    with open_terminal() as terminal:
        (terminal.folder / "greenness.py").write_text(HANDLER, encoding="utf-8")
        (terminal.folder / "greenness.yaml").write_text(WORKFLOW, encoding="utf-8")
        valid, up = terminal.run(check)
        assert "greenness.yaml: valid (greenness v1, 3 nodes)" in valid
        assert "greenness v1" in up
        *_, submitted = terminal.run(submit)
    assert '"cog": {' in submitted


def test_the_commands_before_it_do_what_the_page_says() -> None:
    """From the first `rmhdag up` to the assets, in one folder; the catalogue is read where storage is."""
    up, one, container, remove, order = BEFORE_THE_HANDLER
    (catalogue,) = (fence for fence in fences_of(NAME, "python") if "pystac" in fence.text)
    with open_terminal() as terminal:
        terminal.run(up)
        assert json.loads(terminal.run(one)[-1])["cog"]["container"] == "cogs"
        assert json.loads(terminal.run(container)[-1])["registered"] == 9
        gold = terminal.folder / "data" / "storage" / "gold"
        wait_until(lambda: len(list(gold.glob("catalogue/survey/items/*.json"))) == 9 or None)
        assert len(terminal.run_python(catalogue, gold.parent).splitlines()) >= 9
        terminal.run(remove)
        assert "8 items" in terminal.messages
        *_, assets = terminal.run(order)
    assert "ddh" in assets


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

"""The language's page is true: its examples load, and it names every field, filter, test and code."""

import json
import re
import textwrap
from pathlib import Path

import pytest
from pydantic import BaseModel

from rmhdag.testing import run_workflow
from rmhdag.workflow import json_schema, load, shipped_handlers
from rmhdag.workflow.check_models import CHECK_MODELS
from rmhdag.workflow.expressions.filters import DEFAULT_FILTER, FILTERS, PRESENCE_TESTS, TESTS
from rmhdag.workflow.parameters import FORMATS
from rmhdag.workflow.written import NODE_MODELS, WrittenDefaults, WrittenInput, WrittenRetry, WrittenWorkflow
from tests.workflow.corpus import cases

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workflow-language.md").read_text("utf-8")
HEAD = "workflow_id: example\ndefaults: {queue: light-tasks}\nnodes:\n"
EXAMPLES = re.findall(r"^```(yaml(?: nodes)?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

SOURCE = {"zone": "bronze", "container": "in", "path": "a.tif", "size_bytes": 5, "sha256": "0" * 64}
VALIDATED = {"file_size_mb": 12, "source": SOURCE}
OUTPUT = {"size": 5, "kind": "raster", "broken": False, "tiles": [{"name": "a"}], "title": "Alps", "pixels": 3}
INPUTS: dict[str, dict[str, object]] = {
    "raster_processing": {"container_name": "in", "blob_name": "a.tif", "item_id": "a"},
    "with_inputs": {"blob_name": "a.tif", "area": {"name": "Alps"}},
    "with_checks": {"file": "a.tif"},
    "download": {"url": "https://example.org/a.tif", "token": "correct horse"},
}


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_example_loads(kind: str, text: str) -> None:
    whole = HEAD + textwrap.indent(text, "  ") if kind == "yaml nodes" else text
    assert load(whole, file="example.yaml", handlers=shipped_handlers()).definition.nodes


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_example_runs(kind: str, text: str) -> None:
    """In the engine, with outputs that let every template find its value; nothing but the handlers is a stand-in."""
    whole = HEAD + textwrap.indent(text, "  ") if kind == "yaml nodes" else text
    workflow_id = load(whole, handlers=shipped_handlers()).definition.workflow_id
    job = run_workflow(
        whole,
        INPUTS.get(workflow_id, {}),
        handlers={"echo": OUTPUT, "raster.validate": VALIDATED, "raster.create_cog": {}},
        decisions={"ask": True} if "type: approval" in text else {},
        workflows=[ROOT / "src" / "rmhdag" / "workflows" / "hello_world.yaml"] if "type: workflow" in text else [],
    )
    job.assert_completed()


def test_there_are_examples_of_every_node_type() -> None:
    text = "".join(text for _, text in EXAMPLES)
    for kind in ("conditional", "fan_out", "fan_in", "approval", "workflow"):
        assert f"type: {kind}" in text


def test_every_field_is_named() -> None:
    models: list[type[BaseModel]] = [
        WrittenWorkflow,
        WrittenDefaults,
        WrittenRetry,
        WrittenInput,
        *NODE_MODELS.values(),
        *CHECK_MODELS.values(),
    ]
    for model in models:
        for field in model.model_fields:
            assert re.search(rf"`[^`]*\b{field}\b[^`]*`", PAGE), field


def test_every_filter_test_and_format_is_named() -> None:
    for name in (*FILTERS, DEFAULT_FILTER):
        assert re.search(rf"^\|.*`{name}[`(]", PAGE, re.MULTILINE), name
    for name in (*TESTS, *PRESENCE_TESTS):
        assert f"`is {name}`" in PAGE
    for name in FORMATS:
        assert f"`{name}`" in PAGE


def test_every_code_of_the_corpus_is_named() -> None:
    codes = {code for case in cases("invalid") for _, _, code, _ in case.expected}
    for code in codes:
        assert f"`{code}`" in PAGE, code


def test_every_code_of_the_page_exists() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "rmhdag" / "workflow").glob("*.py"))
    table = PAGE.partition("## Problems")[2]
    for code in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`", table.partition("| about |")[2]):
        assert f'"{code}"' in source, code


@pytest.mark.parametrize("place", ["docs/workflow.schema.json", "src/rmhdag/workflow/workflow.schema.json"])
def test_the_published_schema_is_the_current_one(place: str) -> None:
    """Made by `python -m rmhdag.workflow.language_schema > PLACE`."""
    assert json.loads((ROOT / place).read_text("utf-8")) == json_schema()

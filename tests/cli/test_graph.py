"""`rmhdag graph` and `rmhdag schema`: all forms, on the workflows that come with rmhdag."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from rmhdag.cli.picture import Direction, draw_svg_text
from rmhdag.cli.workflow_files import EveryName
from rmhdag.picture.dot import draw_dot
from rmhdag.picture.mermaid import draw_mermaid
from rmhdag.picture.outline import outline, outline_folded
from rmhdag.picture.terminal import FITS, draw_terminal
from rmhdag.picture.text_width import cut
from rmhdag.workflow import load_file, shipped_handlers
from rmhdag.workflow.checker import Surroundings, find_problems
from tests.cli.conftest import RunCli

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "rmhdag" / "workflows"
FAN_OUT = SHIPPED / "fan_out_test.yaml"


def test_boxes_fit_the_terminal_and_become_a_list_where_they_cannot(call_cli: RunCli) -> None:
    drawn = call_cli("graph", FAN_OUT)
    assert drawn.returncode == 0
    assert drawn.stderr == ""
    assert "║ fan-out: echo ║" in drawn.stdout
    assert max(map(len, drawn.stdout.splitlines())) <= 100
    narrow = call_cli("graph", FAN_OUT, "--width", "20")
    assert max(map(len, narrow.stdout.splitlines())) <= 20
    assert call_cli("graph", FAN_OUT, COLUMNS="20").stdout == narrow.stdout
    assert call_cli("graph", FAN_OUT, "--ascii").stdout.isascii()


def test_svg_to_stdout_and_to_a_file(call_cli: RunCli, home: Path) -> None:
    printed = call_cli("graph", FAN_OUT, "--svg")
    assert ET.fromstring(printed.stdout).tag == "{http://www.w3.org/2000/svg}svg"
    written = call_cli("graph", FAN_OUT, "--svg", "-o", "flow.svg")
    assert (written.stdout, written.stderr) == ("", "wrote flow.svg\n")
    assert (home / "flow.svg").read_text(encoding="utf-8") == printed.stdout
    refused = call_cli("graph", FAN_OUT, "--svg", "-o", "nowhere/flow.svg")
    assert refused.returncode == 1
    assert "nowhere/flow.svg cannot be written: No such file or directory" in refused.stderr


def test_other_forms(call_cli: RunCli, home: Path) -> None:
    assert call_cli("graph", FAN_OUT, "--mermaid").stdout.startswith("flowchart TD\n")
    assert call_cli("graph", FAN_OUT, "--mermaid", "--direction", "right").stdout.startswith("flowchart LR\n")
    assert call_cli("graph", FAN_OUT, "--dot").stdout.startswith('digraph "fan_out_test v1" {\n')
    layout = json.loads(call_cli("graph", FAN_OUT, "--json").stdout)
    assert {node["id"] for node in layout["nodes"]} == {"START", "prepare", "split", "aggregate", "END"}
    call_cli("graph", FAN_OUT, "--json", "-o", "layout.json")
    assert json.loads((home / "layout.json").read_text()) == layout
    assert call_cli("graph", FAN_OUT, "--svg", "--dot").returncode == 2


def test_stdin(call_cli: RunCli) -> None:
    assert call_cli("graph", "-", stdin=FAN_OUT.read_bytes()).stdout == call_cli("graph", FAN_OUT).stdout


def test_an_invalid_file_has_no_picture(call_cli: RunCli, home: Path) -> None:
    (home / "bad.yaml").write_text("workflow_id: bad\nnodes:\n  a: {handler: echo, queue: q, next: b}\n")
    done = call_cli("graph", "bad.yaml")
    assert (done.returncode, done.stdout) == (3, "")
    assert "bad.yaml:3:38: " in done.stderr
    assert "bad.yaml is not a valid workflow, so it has no picture" in done.stderr
    assert call_cli("graph", "nowhere.yaml").returncode == 4
    assert call_cli("graph", ".").returncode == 2


def test_three_hundred_nodes(call_cli: RunCli, home: Path) -> None:
    nodes = "".join(f"  n{number}: {{handler: echo, queue: q, next: n{number + 1}}}\n" for number in range(299))
    (home / "long.yaml").write_text(
        f"workflow_id: long\nname: Long\nnodes:\n{nodes}  n299: {{handler: echo, queue: q}}\n"
    )
    listed = call_cli("graph", "long.yaml")
    assert listed.stdout.splitlines()[1].split() == ["n0", "task", "echo", "→", "n1"]
    assert len(json.loads(call_cli("graph", "long.yaml", "--json").stdout)["nodes"]) == 302


CORPUS = sorted((ROOT / "tests" / "workflows" / "valid").glob("*.yaml")) + sorted(SHIPPED.glob("*.yaml"))


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_every_valid_workflow_can_be_drawn(file: Path) -> None:
    """Whatever the language allows: each node is in each picture, and nothing but numbers is in the layout's places."""
    shown = outline(load_file(file, env_names=EveryName(), fallback_queue="light-tasks").definition)
    checked, _ = find_problems(file.read_bytes(), Surroundings(env_names=EveryName(), fallback_queue="light-tasks"))
    assert checked is not None
    assert outline_folded(checked.folded()) == shown
    drawn = draw_terminal(shown, width=10_000)
    assert all(cut(caption.id, FITS[0].text) in drawn for caption in shown.captions)
    assert len(ET.fromstring(draw_svg_text(shown, Direction.RIGHT)).findall(".//*[@data-node]")) == len(shown.captions)
    assert draw_mermaid(shown).count(" --") + draw_mermaid(shown).count(" -.") == len(shown.arrows)
    assert draw_dot(shown).count(" -> ") >= len(shown.arrows)


IMAGES = ROOT / "docs" / "images"
PICTURES = {"fan_out_test": FAN_OUT, "raster_processing": SHIPPED / "raster_processing.yaml"}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_in_the_documents_are_up_to_date(name: str) -> None:
    """Made by `rmhdag graph FILE --svg -o docs/images/NAME.svg`."""
    drawn = draw_svg_text(outline(load_file(PICTURES[name], handlers=shipped_handlers()).definition), Direction.DOWN)
    assert (IMAGES / f"{name}.svg").read_text(encoding="utf-8") == drawn


def test_the_schema_takes_the_shipped_workflows_and_refuses_a_typing_error(call_cli: RunCli, home: Path) -> None:
    printed = call_cli("schema")
    assert printed.returncode == 0
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    flow = {"workflow_id": "small", "name": "Small", "nodes": {"a": {"handler": "echo", "queue": "light"}}}
    validator.validate(flow)
    flow["nodes"] = {"a": {"handler": "echo", "retires": 3}}
    with pytest.raises(jsonschema.ValidationError, match="retires"):
        validator.validate(flow)
    call_cli("schema", "-o", "workflow.schema.json")
    assert json.loads((home / "workflow.schema.json").read_text()) == schema

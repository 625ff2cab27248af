"""Pictures: nothing hostile gets in, nothing gets lost, and lines in a terminal lead where they should."""

import re
import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from rmhdag.models.states import NodeType
from rmhdag.picture.dot import draw_dot
from rmhdag.picture.layout import layout, place
from rmhdag.picture.mermaid import draw_mermaid
from rmhdag.picture.outline import Arrow, Caption, Outline, outline
from rmhdag.picture.svg import draw_svg
from rmhdag.picture.terminal import draw_terminal
from rmhdag.picture.text_width import columns, cut, visible
from rmhdag.workflow.definition import WorkflowDefinition

HOSTILE = '</text><svg onload="alert(1)">&\'`;]]>\u202e\x00\ud800'
SVG = "{http://www.w3.org/2000/svg}"


def hostile_definition() -> WorkflowDefinition:
    return WorkflowDefinition.model_validate(
        {
            "workflow_id": "hostile",
            "name": "n",
            "description": HOSTILE.replace("\ud800", ""),
            "nodes": {
                "route": {
                    "type": "conditional",
                    "description": HOSTILE.replace("\ud800", ""),
                    "subject": '{{ inputs["' + HOSTILE.replace("\ud800", "") + '"] }}',
                    "branches": [
                        {"condition": "== '<script>alert(1)</script>'", "next": ["ask"]},
                        {"default": True, "next": ["end"]},
                    ],
                },
                "ask": {"type": "approval", "approvers": ["<img src=x onerror=y>"], "ends": True},
                "end": {"type": "task", "task": {"handler": "echo"}, "ends": True},
            },
        }
    )


def test_svg_holds_no_markup_of_others() -> None:
    picture = draw_svg(layout(hostile_definition()))
    tree = ET.fromstring(picture)
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= {
        *("svg", "title", "desc", "style", "g", "rect", "path", "circle", "text")
    }
    attributes = {name for element in tree.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name]
    assert "url(" not in picture
    assert "\u202e" not in picture
    assert "\x00" not in picture
    assert "<script>" not in picture
    assert "&lt;script&gt;" in picture


def test_svg_names_every_node_for_those_who_do_not_see_it() -> None:
    tree = ET.fromstring(draw_svg(layout(hostile_definition())))
    assert tree.get("role") == "img"
    description = tree.findtext(f"{SVG}desc") or ""
    assert tree.get("aria-describedby") == tree.find(f"{SVG}desc").get("id")  # type: ignore[union-attr]
    assert "START (start) leads to route." in description
    assert "ask (approval <img src=x onerror=y>) leads to END." in description
    assert "end if default" in description
    assert [group.get("data-node") for group in tree.iter(f"{SVG}g") if group.get("data-node")] == [
        *("START", "route", "ask", "end", "END")
    ]


def test_svg_follows_the_reader_s_theme_and_loads_nothing() -> None:
    picture = draw_svg(layout(hostile_definition()))
    assert "prefers-color-scheme:dark" in picture
    assert re.findall(r"https?://[^\"\s<]*", picture) == ["http://www.w3.org/2000/svg"]


def test_svg_texts_stay_inside_their_cards() -> None:
    """By our own measure of text, which a look at the pictures in docs/images confirms."""
    long = Outline("t v1", "", (Caption("n" * 48, NodeType.TASK, "raster." + "x" * 57),), ())
    node = place(long).nodes[0]
    assert node.width > 48 * 8
    assert cut(node.detail, 34) == "raster." + "x" * 26 + "…"


def test_mermaid_numbers_nodes_and_escapes_text() -> None:
    text = draw_mermaid(outline(hostile_definition()))
    assert text.startswith('flowchart TD\n    n0(("START"))\n    n1{{"route<br/>')
    assert '    n3["end<br/>echo"]\n' in text
    assert "    n1 -->|\"== '#60;script#62;alert(1)#60;/script#62;'\"| n2\n" in text
    assert not re.search(r"<(?!br/>)", text)
    assert draw_mermaid(outline(hostile_definition()), direction="right").startswith("flowchart LR\n")


def test_dot_quotes_text() -> None:
    text = draw_dot(Outline('a"b\\', "", (Caption("x", NodeType.TASK, 'say "hi"\\'),), ()))
    assert text.splitlines()[0] == 'digraph "a\\"b\\\\" {'
    assert '    "x" [shape=box, label="x\\nsay \\"hi\\"\\\\"];\n' in text


TEXT = """\
         ( START )
             │
             ▼
 ╱───────────────────────╲
 │         pick          │
 │ conditional: inputs.x │
 ╲───────────┬───────────╱
       ┌─────┴────┐
     true       false
       ▼          │
   ┌───────┐      │
   │ work  │      │
   │ echo  │      │
   └───┬───┘      │
       └─────┬────┘
             ▼
          ( END )
"""


def pick() -> Outline:
    captions = (
        Caption("START", NodeType.START),
        Caption("pick", NodeType.CONDITIONAL, "inputs.x"),
        Caption("work", NodeType.TASK, "echo"),
        Caption("END", NodeType.END),
    )
    arrows = (
        Arrow("START", "pick"),
        Arrow("pick", "work", "true", "branch"),
        Arrow("pick", "END", "false", "branch"),
        Arrow("work", "END"),
    )
    return Outline("t v1", "", captions, arrows)


def test_terminal_picture() -> None:
    assert draw_terminal(pick(), width=80) == TEXT


def test_terminal_colours_only_when_asked() -> None:
    assert "\x1b" not in draw_terminal(pick(), width=80)
    coloured = draw_terminal(pick(), width=80, colour=True)
    assert "\x1b[1mwork" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == draw_terminal(pick(), width=80)


def test_terminal_without_line_drawing() -> None:
    assert draw_terminal(pick(), width=80, ascii_only=True).isascii()


def test_too_wide_becomes_a_list() -> None:
    names = [f"a_rather_long_name_{number}" for number in range(12)]
    captions = tuple(Caption(name, NodeType.TASK, "echo") for name in ["first", *names])
    wide = Outline("t v1", "", captions, tuple(Arrow("first", name, "x > 1") for name in names))
    lines = draw_terminal(wide, width=80).splitlines()
    assert lines[0].startswith("first                  task  echo  → a_rather_long_name_0 (x > 1),")
    assert lines[1].startswith(" " * 37 + "a_")
    assert lines[-1].split() == ["a_rather_long_name_11", "task", "echo"]
    assert max(map(len, lines)) <= 80


MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
JOINTS = {
    char: {direction for letter, direction in zip("udlr", MOVES, strict=True) if letter in letters}
    for char, letters in zip("│─┼▼┌┐└┘├┤┬┴", "ud lr udlr u dr dl ur ul udr udl dlr ulr".split(), strict=True)
}


@st.composite
def layered(draw: st.DrawFn) -> Outline:
    """Nodes whose names differ in their first letters, arrows from earlier to later ones, no labels."""
    count = draw(st.integers(2, 12))
    names = [f"{chr(97 + number)}{'x' * draw(st.integers(0, 9))}" for number in range(count)]
    pairs = [(a, b) for number, a in enumerate(names) for b in names[number + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=20, unique=True))
    return Outline(
        "t v1", "", tuple(Caption(name, NodeType.TASK, "-") for name in names), tuple(Arrow(*p) for p in chosen)
    )


@settings(max_examples=200)
@given(layered())
def test_every_arrow_can_be_followed_in_the_terminal(shown: Outline) -> None:
    lines = draw_terminal(shown, width=400).splitlines()
    assert lines[0][:1].isspace()
    grid = {(row, column): char for row, line in enumerate(lines) for column, char in enumerate(line)}
    boxes = {caption.id: find_box(lines, caption.id) for caption in shown.captions}
    for arrow in shown.arrows:
        (_, bottom, left, right), (top, _, start, end) = boxes[arrow.source], boxes[arrow.target]
        ports = [(bottom, column) for column in range(left, right) if grid[bottom, column] == "┬"]
        tips = {(top - 1, column) for column in range(start, end) if grid.get((top - 1, column)) == "▼"}
        assert len(ports) == len(tips) == 1
        assert tips & reachable(grid, ports[0]), f"{arrow}\n" + "\n".join(lines)


def find_box(lines: list[str], name: str) -> tuple[int, int, int, int]:
    """Top and bottom row, first and last column of the box with this name in it."""
    for row, line in enumerate(lines):
        found = re.search(rf"│ +{name} +│", line)
        if found:
            return row - 1, row + 2, found.start(), found.end()
    raise AssertionError(f"{name} is not drawn")


def reachable(grid: dict[tuple[int, int], str], port: tuple[int, int]) -> set[tuple[int, int]]:
    """All cells that connected line characters lead to, downwards out of a box."""
    seen = {(port[0] + 1, port[1])}
    stack = list(seen)
    while stack:
        cell = stack.pop()
        for direction in JOINTS.get(grid.get(cell, " "), set()):
            row, column = cell[0] + MOVES[direction][0], cell[1] + MOVES[direction][1]
            joints = JOINTS.get(grid.get((row, column), " "), set())
            if (row, column) not in seen and OPPOSITE[direction] in joints and (row, column) != port:
                seen.add((row, column))
                stack.append((row, column))
    return seen


@given(layered(), st.integers(20, 120))
def test_boxes_are_never_wider_than_the_terminal(shown: Outline, width: int) -> None:
    drawn = draw_terminal(shown, width=width)
    if "┌" in drawn:
        assert max(map(len, drawn.splitlines())) <= width


@given(st.text(), st.integers(1, 40))
def test_cut_text_fits(text: str, limit: int) -> None:
    assert columns(cut(text, limit)) <= limit


@given(st.text(st.characters()))
def test_visible_text_cannot_steer_a_terminal(text: str) -> None:
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", visible(text))

"""How a job is looked at: its graph in both directions, details beside it, versions side by side, on any screen."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import Page, expect

from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

# Branches that meet again, labels, a fan-out, and names of different lengths.
BRANCHES = """\
workflow_id: branches
name: Branches
version: {version}
inputs: {{flag: {{type: boolean, default: true}}, most: {{type: integer, default: 100}}}}
defaults: {{queue: light}}
nodes:
  start_here: {{handler: echo, params: {{text: {text}}}, next: judge}}
  judge:
    type: conditional
    condition: inputs.flag and inputs.most > 10 and inputs.most < 200
    on_true: a_rather_long_name
    on_false: b
  a_rather_long_name: {{handler: echo, next: split}}
  b: {{handler: echo, next: split}}
  c: {{handler: echo, depends_on: [start_here], next: END}}
  split:
    type: fan_out
    source: [1, 2, 3]
    task: {{handler: echo, params: {{value: "{{{{ item }}}}"}}}}
    next: gather
  gather: {{type: fan_in, next: END}}
"""
_versions = itertools.count(1)


def register_branches(up: Running, text: str) -> int:
    version = next(_versions)
    register(up.api.dsn, load(BRANCHES.format(version=version, text=text), queues={"light", "heavy"}).definition)
    return version


@pytest.fixture(scope="module")
def job_id(up: Running) -> str:
    """A job of a version that is not the newest one any more; the text that changed is hostile."""
    register_branches(up, "before")
    job_id = up.submit("branches")
    assert up.end_of(job_id)["status"] == "completed"
    register_branches(up, f"'{HOSTILE.replace(chr(39), chr(39) * 2).replace('{{ 1 }}', '')}'")
    return job_id


def boxes(page: Page) -> dict[str, dict[str, float]]:
    """Where each node is on the screen."""
    found: dict[str, dict[str, float]] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".graph-node")].map((node) => {
            const box = node.querySelector(".node-box").getBoundingClientRect();
            return [node.dataset.node, { x: box.x, y: box.y, right: box.right, bottom: box.bottom }];
        }))"""
    )
    return found


def do_overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["x"] < other["right"]
        and other["x"] < one["right"]
        and one["y"] < other["bottom"]
        and other["y"] < one["bottom"]
    )


def test_texts_of_a_node_stay_in_its_box(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}")
    page.locator("[data-node=gather]").wait_for()
    rooms: list[float] = page.evaluate(
        """() => [...document.querySelectorAll(".graph-node text:not(.node-time)")].map((text) =>
            text.closest(".graph-node").querySelector(".node-box").getBoundingClientRect().right
                - text.getBoundingClientRect().right)"""
    )
    assert len(rooms) > 10
    assert min(rooms) >= 0
    expect(page.locator("[data-node=judge] .node-detail")).to_contain_text("…")


def test_the_graph_is_turned_and_the_address_says_so(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}")
    page.locator("[data-node=gather]").wait_for()
    down = boxes(page)
    assert down["start_here"]["bottom"] <= down["judge"]["y"]
    page.get_by_role("button", name="Left to right").click()
    expect(page.get_by_role("button", name="Top to bottom")).to_be_visible()
    assert "flow=right" in page.url
    page.reload()
    page.locator("[data-node=gather]").wait_for()
    right = boxes(page)
    assert right["start_here"]["right"] <= right["judge"]["x"]
    assert right["judge"]["right"] <= right["b"]["x"]
    assert right["split"]["right"] <= right["gather"]["x"]
    for boxes_of in (down, right):
        for one, other in itertools.combinations(boxes_of.values(), 2):
            assert not do_overlap(one, other)
    # Arrow keys follow the edges in the direction in which they are drawn.
    page.locator("[data-node=start_here]").focus()
    visitor.press("ArrowRight")
    expect(page.locator("[data-node=judge]")).to_be_focused()
    visitor.press("ArrowLeft")
    expect(page.locator("[data-node=start_here]")).to_be_focused()
    visitor.press("t")
    expect(page.get_by_role("button", name="Left to right")).to_be_visible()
    assert "flow" not in page.url
    page.locator("[data-node=start_here]").focus()
    visitor.press("ArrowDown")
    expect(page.locator("[data-node=judge]")).to_be_focused()


def test_details_are_beside_the_graph_and_their_width_is_remembered(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?node=judge")
    panel = page.get_by_role("complementary", name="Node judge")
    bar = page.get_by_role("separator", name="Width of the node's details")
    expect(bar).to_have_attribute("aria-valuenow", "35")

    def width() -> float:
        box = panel.bounding_box()
        assert box is not None
        return box["width"]

    usual = width()
    bar.focus()
    # The bar is as tall as what is beside it; the page does not jump to show all of it.
    assert page.evaluate("() => window.scrollY") == 0
    visitor.press("ArrowLeft", "Shift+ArrowLeft")
    expect(bar).to_have_attribute("aria-valuenow", "47")
    assert width() > usual
    visitor.press("End")
    expect(bar).to_have_attribute("aria-valuenow", "20")
    assert width() < usual
    visitor.press("Enter")
    expect(bar).to_have_attribute("aria-valuenow", "35")
    assert visitor.serious_findings() == []
    place = bar.bounding_box()
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + 40
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 150, y, steps=3)
    page.mouse.up()
    expect(bar).not_to_have_attribute("aria-valuenow", "35")
    wide = width()
    assert 130 < wide - usual < 170
    # After the button is released, the bar stays.
    page.mouse.move(x + 100, y)
    page.reload()
    panel.wait_for()
    assert abs(width() - wide) < 2
    bar.dblclick()
    expect(bar).to_have_attribute("aria-valuenow", "35")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_second_pane_is_beside_the_first_one(arrive: Arrive, job_id: str, theme: str) -> None:
    visitor = arrive(theme=theme, width=1600)
    page = visitor.go(f"/jobs/{job_id}")
    page.locator("[data-node=gather]").wait_for()
    page.get_by_role("combobox", name="Second pane").select_option("Events")
    second = page.get_by_role("region", name="Second pane: Events")
    expect(second.locator(".event").first).to_be_visible()
    expect(page.locator("[data-node=gather]")).to_be_visible()
    assert "beside=events" in page.url
    page.reload()
    expect(second.locator(".event").first).to_be_visible()
    bar = page.get_by_role("separator", name="Width of the second pane")
    bar.focus()
    visitor.press("Shift+ArrowLeft")
    expect(bar).to_have_attribute("aria-valuenow", "45")
    assert visitor.serious_findings() == []
    # Tables that need more room scroll inside of their pane.
    page.get_by_role("combobox", name="Second pane").select_option("Tasks")
    row = page.get_by_role("region", name="Second pane: Tasks").locator("tr[data-row]", has_text="start_here")
    expect(row.get_by_text("start_here")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert visitor.serious_findings() == []
    page.get_by_role("combobox", name="Second pane").select_option("Events")
    # What is shown first is not shown twice.
    page.get_by_role("tab", name="Events").click()
    expect(second).to_have_count(0)
    page.get_by_role("tab", name="Logs").click()
    expect(second.locator(".event").first).to_be_visible()
    assert visitor.serious_findings() == []
    page.get_by_role("combobox", name="Second pane").select_option("nothing")
    expect(second).to_have_count(0)
    assert "beside" not in page.url


def test_where_two_panes_would_be_narrow_they_are_below_each_other(arrive: Arrive, job_id: str) -> None:
    page = arrive().go(f"/jobs/{job_id}?beside=events")
    first = page.get_by_role("region", name="Graph")
    second = page.get_by_role("region", name="Second pane: Events")
    expect(second.locator(".event").first).to_be_visible()
    above, below = first.bounding_box(), second.bounding_box()
    assert above is not None
    assert below is not None
    assert below["y"] >= above["y"] + above["height"]
    assert abs(below["width"] - above["width"]) < 2
    expect(page.get_by_role("separator", name="Width of the second pane")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_versions_are_compared_side_by_side(arrive: Arrive, job_id: str, theme: str) -> None:
    visitor = arrive(theme=theme)
    page = visitor.go(f"/jobs/{job_id}?tab=definition&view=diff")
    sides = page.locator(".diff[data-look=sides]")
    changed = sides.locator(".diff-pair", has=page.locator(".diff-gone", has_text="text: before"))
    expect(changed.locator(".diff-new")).to_contain_text("<b>bold</b>")
    expect(sides.locator(".diff-titles")).to_contain_text("the newest")
    assert page.locator("main b, main img").count() == 0
    assert visitor.serious_findings() == []
    page.get_by_role("button", name="Unified").click()
    expect(page.locator(".diff[data-look=unified] .diff-gone", has_text="text: before")).to_be_visible()
    assert "diff=unified" in page.url
    assert visitor.serious_findings() == []
    page.reload()
    expect(page.locator(".diff[data-look=unified]")).to_be_visible()
    page.get_by_role("button", name="Side by side").click()
    expect(sides).to_be_visible()
    assert "diff=" not in page.url
    # Versions of a workflow have the same view.
    visitor.go("/workflows/branches?tab=versions&against=1")
    expect(sides.locator(".diff-titles")).to_have_text(re.compile(r"^Version 1Version \d+$"))
    assert visitor.serious_findings() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_telephone_everything_is_below_each_other(arrive: Arrive, job_id: str, theme: str) -> None:
    visitor = arrive(width=360, theme=theme)
    for path in (f"/jobs/{job_id}?tab=definition&view=diff", "/workflows/branches?tab=versions&against=1"):
        page = visitor.go(path)
        expect(page.locator(".diff[data-look=unified]")).to_be_visible()
        expect(page.get_by_role("button", name="Side by side")).to_have_count(0)
        assert visitor.serious_findings() == [], path
        assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0, path
    page = visitor.go(f"/jobs/{job_id}?node=judge&flow=right&beside=events")
    panel = page.get_by_role("complementary", name="Node judge")
    panel.wait_for()
    page.locator("[data-node=judge]").wait_for()
    expect(page.get_by_role("separator")).to_be_hidden()
    top, graph = panel.bounding_box(), page.get_by_role("region", name="Graph").bounding_box()
    assert top is not None
    assert graph is not None
    assert top["y"] + top["height"] <= graph["y"]
    assert visitor.serious_findings() == []
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0

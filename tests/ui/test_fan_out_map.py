"""The children of a fan-out at their places on Earth, which fill in while they are processed."""

from __future__ import annotations

import re
import signal

from playwright.sync_api import expect

from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.ui.browsing import Visitor
from tests.ui.mapping import colour_at

# Two rows of tiles in the Alps, and one item without a place.
SURVEY = """\
workflow_id: survey
name: A survey by tiles
inputs: {items: {type: array}}
nodes:
  split:
    type: fan_out
    source: "{{ inputs.items }}"
    item_key: "{{ item.name }}"
    task: {handler: echo, queue: heavy, params: {bbox: "{{ item.bbox }}"}}
    next: gather
  gather: {type: fan_in, next: END}
"""
# OpenLayers tries which kind of canvas it can read faster; the browser comments on the slower one.
OF_THE_LIBRARY = "willReadFrequently"
BOXES = [[6 + x, 46 + y, 7 + x, 47 + y] for y in range(2) for x in range(4)]
# Shares of the width and height of the map; it is fitted to the tiles.
MIDDLE_OF_A_TILE = (0.57, 0.35)


def test_tiles_fill_in_at_their_places_while_they_are_processed(up: Running, visitor: Visitor) -> None:
    register(up.api.dsn, load(SURVEY, queues={"light", "heavy"}).definition)
    items = [{"name": f"tile {number}", "bbox": box} for number, box in enumerate(BOXES)]
    job_id = up.submit("survey", items=[*items, {"name": "nowhere", "bbox": None}])
    up.wait_for_node(job_id, "split__8", "dispatched")
    page = visitor.go(f"/jobs/{job_id}?tab=fan-out&as=map")
    expect(page.locator("[data-live=live]")).to_be_visible()
    legend = page.get_by_role("list", name="Tiles by state")
    expect(legend).to_have_text(re.compile("^9 queued1 without a known place$"))
    canvas = page.locator(".map-canvas")
    canvas.scroll_into_view_if_needed()
    before = colour_at(canvas, *MIDDLE_OF_A_TILE)
    # Nothing is reloaded: the page hears of each child by itself.
    worker = up.cluster.worker("--queue", "heavy")
    expect(legend).to_have_text(re.compile("^9 completed1 without a known place$"))
    up.wait(lambda: colour_at(canvas, *MIDDLE_OF_A_TILE) != before or None)
    red, green, blue = colour_at(canvas, *MIDDLE_OF_A_TILE)
    assert green > red + 40
    assert green > blue
    assert visitor.serious_findings() == []
    # A tile is opened like a square.
    place = canvas.bounding_box()
    assert place is not None
    page.mouse.click(
        place["x"] + place["width"] * MIDDLE_OF_A_TILE[0], place["y"] + place["height"] * MIDDLE_OF_A_TILE[1]
    )
    expect(page.get_by_role("complementary", name=re.compile(r"Node split__[4-7]"))).to_be_visible()
    assert up.end_of(job_id)["status"] == "completed"
    worker.send_signal(signal.SIGTERM)
    worker.wait(45)
    visitor.problems[:] = [problem for problem in visitor.problems if OF_THE_LIBRARY not in problem]

"""The timeline of a job: a part of the time by pointer and by keys, in the address, in any order, on any screen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import FLAKY, Running
from tests.ui.browsing import Visitor
from tests.ui.conftest import Arrive

BEGIN = "Beginning of what is shown"
END = "End of what is shown"
MOVED = "What is shown, moved as a whole"


# As long as that, because the parts of a few milliseconds cannot be halved.
TIMED = FLAKY.replace("workflow_id: flaky", "workflow_id: timed").replace(
    "nodes:\n", "nodes:\n  nap: {handler: sleep, params: {seconds: 2}, next: split}\n"
)


@pytest.fixture(scope="module")
def job_id(up: Running) -> str:
    register(up.api.dsn, load(TIMED, queues={"light", "heavy"}).definition)
    job_id = up.submit("timed", numbers=[1, 2, 3, 4])
    assert up.end_of(job_id)["status"] == "failed"
    return job_id


def drag(page: Page, over: Locator, begin: float, end: float) -> None:
    """Between two parts of its width."""
    box = over.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (begin + end) / 2 * box["width"], y, steps=2)
    page.mouse.move(box["x"] + end * box["width"], y, steps=2)
    page.mouse.up()


def span(page: Page, *, other_than: tuple[int, int] | None = None) -> tuple[int, int]:
    """Milliseconds of the address, after the beginning, as soon as there are others than before."""
    before = "" if other_than is None else f"(?!{other_than[0]}-{other_than[1]}(?:&|$))"
    expect(page).to_have_url(re.compile(rf"[?&]time={before}\d+-\d+"))
    parts = re.search(r"[?&]time=(\d+)-(\d+)", page.url)
    assert parts is not None
    return int(parts[1]), int(parts[2])


def expect_whole(page: Page) -> None:
    expect(page).not_to_have_url(re.compile("time="))


def test_a_part_of_the_time_is_dragged_moved_and_left_again(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=timeline")
    strip = page.locator(".strip")
    bars = page.locator(".gantt-bar")
    bars.first.wait_for()
    expect_whole(page)
    drag(page, strip, 0.2, 0.6)
    expect(page.get_by_role("button", name="Whole time")).to_be_visible()
    first = span(page)
    length = first[1] - first[0]
    assert first[0] > 0
    # Moved as a whole, it is as long as before.
    drag(page, strip, 0.4, 0.6)
    second = span(page, other_than=first)
    assert second[0] > first[0]
    assert abs(second[1] - second[0] - length) <= 2
    # Within what is shown, the bars below the strip show still less.
    drag(page, page.locator(".gantt-field"), 0.25, 0.75)
    third = span(page, other_than=second)
    assert abs((third[1] - third[0]) - length / 2) < length / 8
    # Each choice is an entry of the history.
    page.go_back()
    expect(page).to_have_url(re.compile(f"time={second[0]}-{second[1]}"))
    page.reload()
    bars.first.wait_for()
    assert span(page) == second
    page.get_by_role("button", name="Whole time").click()
    expect_whole(page)
    strip.dblclick()
    expect_whole(page)


def test_a_part_of_the_time_is_chosen_by_keyboard_alone(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=timeline")
    page.locator(".gantt-bar").first.wait_for()
    begin = page.get_by_role("slider", name=BEGIN)
    visitor.tab_to(begin)
    expect(begin).to_have_attribute("aria-valuetext", re.compile("after the beginning"))
    visitor.press("Shift+ArrowRight", "Shift+ArrowRight", "ArrowRight")
    first = span(page)
    visitor.tab_to(page.get_by_role("slider", name=END))
    visitor.press("Shift+ArrowLeft", "Shift+ArrowLeft")
    second = span(page, other_than=first)
    assert second[0] == first[0]
    assert second[1] < first[1]
    moved = page.get_by_role("slider", name=MOVED)
    moved.focus()
    visitor.press("ArrowLeft")
    third = span(page, other_than=second)
    assert third[0] < second[0]
    assert abs((third[1] - third[0]) - (second[1] - second[0])) <= 2
    visitor.press("+")
    fourth = span(page, other_than=third)
    assert fourth[1] - fourth[0] < third[1] - third[0]
    visitor.press("-")
    fifth = span(page, other_than=fourth)
    assert fifth[1] - fifth[0] > fourth[1] - fourth[0]
    visitor.press("f")
    expect_whole(page)
    # Ends stay on their sides of each other.
    begin.focus()
    visitor.press("End")
    least = span(page)
    assert least[1] > least[0]
    visitor.press("Enter")
    expect_whole(page)
    visitor.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Show the whole time")


@pytest.mark.parametrize("text", ["5-5", "9-2", "999999999-9999999999", "<b>-1", "-1-5"])
def test_an_address_that_names_no_part_shows_the_whole_time(visitor: Visitor, job_id: str, text: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=timeline&time={text}")
    page.locator(".gantt-bar").first.wait_for()
    expect(page.get_by_role("button", name="Whole time")).to_have_count(0)
    assert page.locator("main b").count() == 0


def test_the_chain_that_decided_is_marked_and_waiting_can_be_left_out(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=timeline")
    bars = page.locator(".gantt-bar")
    bars.first.wait_for()
    expect(page.locator(".timeline-gaps")).to_contain_text("waiting for a worker or a retry")
    page.get_by_role("button", name="Critical path").click()
    assert "path=1" in page.url
    expect(page.get_by_role("group", name="broken, on the critical path")).to_be_visible()
    assert page.locator(".gantt-bar.bar-wait").count() > 0
    page.get_by_label("Order").select_option("From zero")
    assert "order=flat" in page.url
    expect(page.locator(".gantt-bar.bar-wait")).to_have_count(0)
    lefts: list[float] = page.evaluate(
        "() => [...document.querySelectorAll('.gantt-row')].map((row) => row.querySelector('.gantt-bar').offsetLeft)"
    )
    assert max(lefts) - min(lefts) <= 1
    page.get_by_label("Order").select_option("Without waiting")
    expect(page.locator(".gantt-bar.bar-wait")).to_have_count(0)
    page.get_by_role("button", name="By worker").click()
    expect(page.get_by_label("Order")).to_have_count(0)


def test_what_failed_within_a_moment_at_the_end_is_seen(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=timeline")
    bar = page.locator(".gantt-bar.bar-failed")
    bar.wait_for()
    inside, field = bar.bounding_box(), page.locator(".gantt-field").bounding_box()
    assert inside is not None
    assert field is not None
    assert inside["width"] >= 3
    assert inside["x"] + inside["width"] <= field["x"] + field["width"] + 0.5


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_the_strip_is_accessible_and_fits(arrive: Arrive, job_id: str, theme: str, width: int) -> None:
    visitor = arrive(theme=theme, width=width)
    page = visitor.go(f"/jobs/{job_id}?tab=timeline&path=1")
    page.locator(".gantt-bar").first.wait_for()
    visitor.press("+")
    page.get_by_role("slider", name=MOVED).wait_for()
    assert visitor.serious_findings() == []
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    words, field = page.locator(".timeline-window p").bounding_box(), page.locator(".gantt-field").bounding_box()
    assert words is not None
    assert field is not None
    # Neither one letter to a line nor a chart beside its names that shows nothing.
    assert words["height"] < 60
    assert field["width"] > width / 2
    for name in (BEGIN, END):
        box = page.get_by_role("slider", name=name).bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 24


def test_the_timeline_of_a_running_job_can_be_looked_at_in_part(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("slow", seconds=600)
    up.wait_for_node(job_id, "nap", "running")
    page = visitor.go(f"/jobs/{job_id}?tab=timeline")
    page.get_by_role("button", name=re.compile("^nap, attempt 1")).wait_for()
    drag(page, page.locator(".strip"), 0.1, 0.5)
    expect(page.get_by_role("button", name="Whole time")).to_be_visible()
    kept = span(page)
    # What is shown stays where it is while time goes on.
    words = page.locator(".timeline-window p")
    before = words.inner_text()
    expect(words).not_to_have_text(before)
    assert span(page) == kept
    up.post(f"jobs/{job_id}/cancel")

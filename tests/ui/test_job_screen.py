"""The page of a job: from the failure to its cause and its retry, live, with ten thousand children and a million lines,
with hostile texts, by keyboard, and for those who do not see it.
"""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from rmhdag.models.ids import task_id_of
from rmhdag.store.connection import Conn
from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

CHILDREN = 10_000
LINES = 1_000_000
LINES_PER_CHUNK = 1_000
MOST_BYTES = 300_000
PANES = ("graph", "fan-out", "timeline", "tasks", "logs", "outputs", "events", "definition")

HOSTILE_FLOW = """\
workflow_id: hostile
name: "<b>Not bold</b>"
inputs: {text: {type: string}}
defaults: {queue: light, retry: {max_attempts: 1}}
nodes:
  split:
    type: fan_out
    source: ["{{ inputs.text }}"]
    item_key: "{{ item }}"
    task: {handler: echo, params: {value: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, next: ask}
  ask: {type: approval, message: "{{ inputs.text }}", next: broken}
  broken: {handler: fail, params: {message: "{{ inputs.text }}"}, next: END}
"""


def failed_job(up: Running) -> str:
    job_id = up.submit("flaky")
    assert up.end_of(job_id)["status"] == "failed"
    return job_id


def test_a_failed_job_opens_on_its_cause_and_is_retried_by_keyboard(up: Running, visitor: Visitor) -> None:
    job_id = failed_job(up)
    page = visitor.go(f"/jobs/{job_id}")
    panel = page.get_by_role("complementary", name="Node broken")
    expect(panel).to_contain_text("no luck today")
    expect(page.locator(".job-why")).to_contain_text("no luck today")
    assert "node=broken" in page.url
    # By the arrows along the edges, then back to what failed.
    page.locator('[data-node="broken"]').focus()
    visitor.press("ArrowUp", "Enter")
    expect(page.get_by_role("complementary", name="Node judge")).to_be_visible()
    visitor.press("]")
    expect(panel).to_be_visible()
    visitor.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Runs again")
    expect(dialog).to_contain_text("split")
    dialog.get_by_role("button", name="Start the retry").focus()
    visitor.press("Enter")
    expect(page).not_to_have_url(f"{visitor.url}/ui/jobs/{job_id}")
    expect(page.get_by_role("link", name=job_id[-8:])).to_be_visible()
    retry = page.url.split("/jobs/")[1].split("?")[0]
    assert up.end_of(retry)["rerun_of"] == job_id


def test_from_the_submission_over_the_failure_to_the_retry_by_keyboard_alone(up: Running, visitor: Visitor) -> None:
    page = visitor.go("/")
    visitor.press("n")
    search = page.get_by_role("searchbox", name="Find a workflow")
    visitor.tab_to(search)
    page.keyboard.type("flaky")
    visitor.tab_to(page.locator(".workflow-card", has_text="flaky"))
    visitor.press("Enter")
    expect(page.get_by_text("The server would accept this")).to_be_visible()
    visitor.tab_to(page.get_by_role("button", name="Submit", exact=True))
    visitor.press("Enter")
    page.wait_for_url("**/ui/jobs/*")
    # The page was open when it failed, and opens what failed by itself.
    panel = page.get_by_role("complementary", name="Node broken")
    expect(panel).to_contain_text("no luck today")
    failed_id = page.url.split("/jobs/")[1].split("?")[0]
    visitor.press("r")
    start = page.get_by_role("dialog").get_by_role("button", name="Start the retry")
    expect(start).to_be_enabled()
    visitor.tab_to(start)
    visitor.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name=failed_id[-8:])).to_be_visible()
    (retry,) = up.get("jobs", rerun_of=failed_id)["jobs"]
    assert retry["job_id"] in page.url
    assert up.end_of(retry["job_id"])["status"] == "failed"


def test_the_parameters_of_a_rerun_are_edited_and_its_effect_is_shown_before(up: Running, visitor: Visitor) -> None:
    job_id = failed_job(up)
    page = visitor.go(f"/jobs/{job_id}")
    page.get_by_role("button", name="Rerun…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Parameters").fill(json.dumps({"fails": False, "numbers": [1, 2, 3]}))
    expect(dialog.locator(".plan")).to_contain_text("fine")
    dialog.get_by_role("textbox", name="Parameters").fill("{")
    expect(dialog).to_contain_text("This is not JSON")
    dialog.get_by_role("textbox", name="Parameters").fill(json.dumps({"fails": False, "numbers": [1, 2, 3]}))
    dialog.get_by_role("button", name="Start the rerun").click()
    expect(page.locator(".job-head [data-status=completed]")).to_be_visible()
    expect(page.locator('[data-node="fine"]')).to_have_attribute("data-status", "completed")


def test_a_change_is_on_the_screen_within_a_second_of_its_commit(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    page = visitor.go(f"/jobs/{job_id}")
    expect(page.locator("[data-live=live]")).to_be_visible()
    node = page.locator('[data-node="ask"]')
    expect(node).to_have_attribute("data-status", "running")
    page.get_by_role("button", name="Approve").click()
    page.evaluate(
        """() => {
            const node = document.querySelector('[data-node="ask"]');
            new MutationObserver(() => { window.changedAt ??= Date.now(); })
                .observe(node, { attributes: true, attributeFilter: ['data-status'] });
        }"""
    )
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(node).to_have_attribute("data-status", "completed")
    event = next(
        one
        for one in up.get(f"jobs/{job_id}/timeline")["events"]
        if (one["event_type"], one["node_id"]) == ("node_completed", "ask")
    )
    committed = datetime.fromisoformat(event["timestamp"]).timestamp()
    assert page.evaluate("() => window.changedAt") / 1000 - committed < 1
    expect(page.locator(".job-head [data-status=completed]")).to_be_visible()


def large_job(conn: Conn, up: Running) -> str:
    """A job with so many children and lines that took hours; its rows are written as its processes would have."""
    job_id = up.submit("flaky", fails=False)
    up.end_of(job_id)
    begin = datetime.now(UTC) - timedelta(hours=2)
    conn.execute(
        """UPDATE dag_node_states SET output = output || jsonb_build_object('total', %(count)s::int)
           WHERE job_id = %(job)s AND node_id = 'split'""",
        {"count": CHILDREN, "job": job_id},
    )
    conn.execute(
        """INSERT INTO dag_node_states (job_id, node_id, namespace, status, parent_node_id, fan_out_index,
               fan_out_item_key, created_at, updated_at, ready_at, started_at, completed_at, error_message,
               input_params)
           SELECT %(job)s, 'split__' || i, 'default',
               (CASE WHEN i %% 1000 = 7 THEN 'failed' ELSE 'completed' END)::node_status,
               'split', i, 'tile ' || i, %(begin)s, %(begin)s, %(begin)s, %(begin)s + i * interval '10 ms',
               %(begin)s + i * interval '10 ms' + (100 + i %% 900) * interval '1 ms',
               CASE WHEN i %% 1000 = 7 THEN 'no such band' END, '{}'
           FROM generate_series(3, %(last)s) AS i""",
        {"job": job_id, "begin": begin, "last": CHILDREN - 1},
    )
    conn.execute(
        """INSERT INTO dag_task_logs (task_id, lease_epoch, chunk_index, created_at, job_id, node_id, namespace,
               line_count, truncated, content)
           SELECT %(task)s, 1, c, now() + c * interval '1 ms', %(job)s, 'split__0', 'default', %(per)s, false,
               string_agg(CASE WHEN c * %(per)s + l = 654320 THEN 'ERROR needle in the hay'
                   ELSE 'INFO line ' || c * %(per)s + l END, E'\n' ORDER BY l) || E'\n'
           FROM generate_series(0, %(chunks)s - 1) AS c, generate_series(0, %(per)s - 1) AS l
           GROUP BY c""",
        {
            "task": task_id_of(job_id, "split__0", 7),
            "job": job_id,
            "per": LINES_PER_CHUNK,
            "chunks": LINES // LINES_PER_CHUNK,
        },
    )
    return job_id


@pytest.fixture(scope="module")
def large(up: Running) -> str:
    return large_job(up.cluster.conn, up)


def test_ten_thousand_children_in_one_view(up: Running, visitor: Visitor, large: str) -> None:
    page = visitor.go(f"/jobs/{large}?tab=fan-out")
    expect(page.get_by_label("10,000 children")).to_be_visible()
    expect(page.locator("tbody tr[data-row]").first).to_contain_text("no such band")
    # All that the page has read, with the keys of all items. The browser may have thrown the texts away by now.
    read: dict[str, int] = page.evaluate(
        """() => Object.fromEntries(performance.getEntriesByType('resource')
            .filter(({ name }) => name.includes('/api/v1/') && !name.includes('/stream'))
            .map(({ name, decodedBodySize }) => [name, decodedBodySize]))"""
    )
    assert any(f"/jobs/{large}" in name and size > 10_000 for name, size in read.items()), read
    assert sum(read.values()) < MOST_BYTES, read
    painted = page.locator(".squares canvas").evaluate(
        """(canvas) => {
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const colours = new Set();
            for (let at = 0; at < pixels.length; at += 4) {
                if (pixels[at + 3] === 255) colours.add(pixels.slice(at, at + 3).join());
            }
            return colours.size;
        }"""
    )
    assert painted >= 2, "completed and failed children have colours of their own"
    page.get_by_role("group", name="States").get_by_role("button", name="failed").click()
    expect(page.locator("tbody tr[data-row]")).to_have_count(10)
    page.get_by_role("group", name="States").get_by_role("button", name="failed").click()
    # Any child is found by its item, not only one of the first.
    page.get_by_label("Filter by item or index").fill("tile 9876")
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)
    expect(page.locator("tbody tr[data-row]")).to_contain_text("completed9,876tile 98761 of")
    page.get_by_label("Filter by item or index").fill("")
    page.get_by_label("10,000 children").focus()
    visitor.press("Home", "ArrowRight", "Enter")
    expect(page.get_by_role("complementary", name="Node split__1")).to_be_visible()
    assert "node=split__1" in page.url
    page.get_by_role("tab", name="Durations").click()
    expect(page.locator(".histogram")).to_have_attribute("aria-label", re.compile("95 % at most"))


def test_a_million_lines_are_searched_and_jumped_through(up: Running, visitor: Visitor, large: str) -> None:
    page = visitor.go(f"/jobs/{large}?tab=logs")
    log = page.get_by_role("log")
    expect(log).to_have_attribute("aria-label", re.compile("1,000,"))
    expect(page.locator(".log-row").last).to_contain_text("INFO line 999999")
    page.get_by_label("Search the logs").fill("needle")
    expect(page.locator(".log-count")).to_contain_text("1 match")
    expect(page.locator(".log-row mark")).to_have_text("needle")
    log.focus()
    visitor.press("Home")
    expect(page.locator('.log-row[data-line="1"]')).to_be_visible()
    visitor.press("PageDown")
    expect(page.locator('.log-row[data-line="1"]')).to_have_count(0)
    began = time.monotonic()
    visitor.press("End")
    expect(page.locator(".log-row").last).to_contain_text("INFO line 999999")
    assert time.monotonic() - began < 2
    page.get_by_role("button", name="error", exact=True).click()
    expect(page.locator(".log-row")).to_have_count(1)
    page.locator(".log-number").first.click()
    assert "line=1" in page.url


def test_texts_of_others_are_never_markup(up: Running, arrive: Arrive) -> None:
    register(up.api.dsn, load(HOSTILE_FLOW, queues={"light", "heavy"}).definition)
    job_id = up.submit("hostile", text=HOSTILE)
    up.wait_for_node(job_id, "ask", "running")
    visitor = arrive(theme="dark")
    page = visitor.go(f"/jobs/{job_id}")
    expect(page.locator(".node-panel")).to_contain_text("<b>bold</b>")
    up.post(f"jobs/{job_id}/nodes/ask/decide", {"decision": "approve"})
    assert up.end_of(job_id)["status"] == "failed"
    for pane in PANES:
        visitor.go(f"/jobs/{job_id}?tab={pane}")
        expect(page.locator("[role=tabpanel] .state-loading")).to_have_count(0)
        assert page.evaluate("() => document.querySelectorAll('main b, main img').length") == 0, pane
        assert visitor.serious_findings() == [], pane
    visitor.go("/workflows/hostile")
    page.locator("[data-node=split]").wait_for()
    assert page.evaluate("() => document.querySelectorAll('main b, main img').length") == 0
    assert "owned" not in page.title()


def test_every_pane_is_accessible_and_fits_a_telephone(up: Running, arrive: Arrive) -> None:
    job_id = failed_job(up)
    visitor = arrive(width=360)
    for path in (*(f"/jobs/{job_id}?tab={pane}" for pane in PANES), "/workflows", "/workflows/flaky"):
        page = visitor.go(path)
        expect(page.locator("main .state-loading")).to_have_count(0)
        assert visitor.serious_findings() == [], path
        assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0, path

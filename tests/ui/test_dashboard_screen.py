"""The first screen: what needs a person comes first, and each number leads to the list that reproduces it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.api.running import Running
from tests.ui.browsing import HOSTILE
from tests.ui.conftest import Arrive


def test_failures_are_grouped_and_lead_to_exactly_their_jobs(up: Running, arrive: Arrive) -> None:
    jobs = [up.submit("flaky", numbers=[n]) for n in range(2)]
    for job_id in jobs:
        up.end_of(job_id)
    text = f"{HOSTILE} tile 4711"
    for number, job_id in enumerate(jobs):
        up.cluster.conn.execute(
            "UPDATE dag_jobs SET error_message = %s WHERE job_id = %s", [text.replace("4711", str(number)), job_id]
        )
    visitor = arrive()
    page = visitor.go("/")
    item = page.locator(".attention", has_text="of flaky failed").filter(has_text="tile")
    expect(item).to_contain_text("2 jobs of flaky failed")
    expect(item).to_contain_text("<b>bold</b>")
    item.get_by_role("link").click()
    expect(page.locator("tbody tr[data-row]")).to_have_count(2)
    assert {row.get_attribute("data-key") for row in page.locator("tbody tr[data-row]").all()} == set(jobs)


def test_what_waits_and_what_runs_is_shown_live(up: Running, arrive: Arrive) -> None:
    visitor = arrive()
    page = visitor.go("/")
    expect(page.locator("[data-live=live]")).to_be_visible()
    lonely, slow, asking = up.submit("lonely"), up.submit("slow", seconds=600), up.submit("release")
    attention = page.get_by_role("region", name="Needs attention")
    expect(attention).to_contain_text("in queue heavy, which no worker serves")
    expect(page.get_by_role("region", name="Running now")).to_contain_text("slow")
    expect(attention).to_contain_text("waiting for somebody")
    for job_id in (lonely, slow, asking):
        up.post(f"jobs/{job_id}/cancel")
        up.end_of(job_id)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_nobody_is_kept_out(up: Running, arrive: Arrive, theme: str, width: int) -> None:
    up.end_of(up.submit("flaky"))
    visitor = arrive(theme=theme, width=width)
    for path in ("/", "/jobs"):
        page = visitor.go(path)
        page.locator(".skeleton").first.wait_for(state="detached")
        assert visitor.serious_findings() == [], path
        overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, f"{path} is {overflow} px too wide"

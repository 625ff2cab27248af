"""One stream per browser, however many tabs; and a page that outlives its server."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.api.serving import ServedHere
from tests.ui.conftest import Arrive

TABS = 8


def test_eight_tabs_share_one_stream_and_all_hear_of_a_change(up: Running, arrive: Arrive) -> None:
    known_id = up.submit("slow", seconds=600)
    visitor = arrive()
    pages = [visitor.page, *(visitor.open() for _ in range(TABS - 1))]
    for page in pages:
        page.goto(f"{visitor.url}/ui/jobs?q=workflow:slow")
        page.locator("[data-live=live]").wait_for()
        # The list is read: a job that comes now is new to it.
        page.locator(f'tr[data-key="{known_id}"]').wait_for()
    assert isinstance(up.api, ServedHere)
    assert up.api.hub.listeners == 1
    job_id = up.submit("slow", seconds=600)
    for page in pages:
        page.get_by_role("button", name="1 new").wait_for()
    pages[0].close()
    for one in (known_id, job_id):
        up.post(f"jobs/{one}/cancel")
        up.end_of(one)


@pytest.mark.timeout(90)
def test_the_server_is_killed_under_the_page_and_comes_back(up: Running, arrive: Arrive) -> None:
    process = up.cluster.over_http()
    address = up.cluster.api_address
    visitor = arrive(url=address, signed_in=False)
    visitor.expected = {401}
    job_id = up.submit("slow", seconds=600)
    up.wait_for_node(job_id, "nap", "running")
    page = visitor.go(f"/jobs?q={job_id}")
    page.get_by_label("API key").fill(up.api.key(Scope.READ, Scope.OPERATE))
    page.keyboard.press("Enter")
    row = page.locator(f'tr[data-key="{job_id}"]')
    expect(row).to_contain_text("running")
    page.locator("[data-live=live]").wait_for()
    up.cluster.kill(process)
    expect(page.get_by_text("The server does not answer.")).to_be_visible()
    # What was shown stays, and with the server the page comes back by itself.
    expect(row).to_contain_text("running")
    assert all("ERR_" in problem for problem in visitor.problems), visitor.problems
    up.cluster.api()
    page.locator("[data-live=live]").wait_for()
    expect(page.get_by_text("The server does not answer.")).to_have_count(0)
    visitor.problems.clear()
    up.post(f"jobs/{job_id}/cancel")
    expect(row).to_contain_text("cancelled")

"""What a page costs: at most ten requests until it is drawn and live, and few files; a map has files of its own."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Request, expect

from tests.api.running import Running
from tests.ui.browsing import Visitor
from tests.ui.conftest import Arrive

MOST_REQUESTS = 10
# The page, its style, its icon, the start and the screen.
MOST_FILES = 5
# The map of footprints, what all maps share (two files), and the outlines of countries.
MOST_FILES_OF_A_MAP = 4
SCREENS = (
    "/jobs /workflows /workflows/flaky /submit /submit/flaky /queues /nodes /health /settings /tasks /about".split()
)
# These show what was published, which other tests do meanwhile: they are opened where nobody has published anything.
SCREENS_OF_CONTENT = ("/", "/approvals", "/assets")
PANES = ("graph", "fan-out", "timeline", "tasks", "logs", "outputs", "events", "definition")


@pytest.fixture(scope="module")
def failed_id(up: Running) -> str:
    job_id = up.submit("flaky")
    assert up.end_of(job_id)["status"] == "failed"
    return job_id


@pytest.fixture(scope="module")
def running_id(up: Running) -> str:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    return job_id


def requests_of(visitor: Visitor, path: str) -> set[str]:
    """Each address counts once: a page reads some of them again when it hears news."""
    # What the page before still fetches is not of this one.
    visitor.page.goto("about:blank")
    addresses: set[str] = set()

    def note(request: Request) -> None:
        # A job is read again, without its structure, when it hears of its own end.
        address = re.sub("&structure=(true|false)", "", request.url.removeprefix(visitor.url))
        addresses.add(f"{request.method} {address}")

    visitor.page.on("request", note)
    page = visitor.go(path)
    expect(page.locator("[data-live=live]")).to_be_visible()
    expect(page.locator("main .state-loading")).to_have_count(0)
    visitor.page.remove_listener("request", note)
    return addresses


def check(visitor: Visitor, path: str) -> None:
    addresses = requests_of(visitor, path)
    files = [address for address in addresses if "/ui" in address]
    of_map = MOST_FILES_OF_A_MAP if any("/footprint-map" in file for file in files) else 0
    assert len(files) <= MOST_FILES + of_map, "\n".join([path, *sorted(files)])
    assert len(addresses) <= MOST_REQUESTS + of_map, "\n".join([path, *sorted(addresses)])


@pytest.mark.timeout(300)
def test_every_screen_needs_few_requests(visitor: Visitor, arrive: Arrive, running_id: str) -> None:
    # The health of a platform without all of its parts is answered with it.
    visitor.expected = {503}
    for path in SCREENS:
        check(visitor, path)
    newcomer = arrive(namespace="newcomers")
    for path in SCREENS_OF_CONTENT:
        check(newcomer, path)
    check(visitor, f"/jobs/{running_id}?node=ask")
    check(visitor, f"/jobs/{running_id}/report")


@pytest.mark.timeout(300)
def test_every_pane_of_a_job_needs_few_requests(visitor: Visitor, failed_id: str) -> None:
    for pane in PANES:
        check(visitor, f"/jobs/{failed_id}?tab={pane}")

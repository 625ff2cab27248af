"""Every screen, filled with hostile texts: nothing of them is markup, nobody is kept out, and nothing is too wide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rmhdag.models.assets import ApprovalState
from rmhdag.models.scopes import Scope
from rmhdag.storage import StorageSettings
from rmhdag.storage.zones import open_storage
from rmhdag.store.identity import new_id
from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.api.serving import served
from tests.store.waiting import wait_until
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive
from tests.ui.mapping import HIGH, LOW, MapData

WORKFLOW = "hostile_everywhere"
FLOW = {
    "workflow_id": WORKFLOW,
    "name": HOSTILE.replace("{{ 1 }}", ""),
    "description": HOSTILE.replace("{{ 1 }}", ""),
    "inputs": {
        "text": {"type": "string", "default": HOSTILE, "description": HOSTILE, "enum": [HOSTILE, "plain"]},
        "notes": {"type": "array", "default": [HOSTILE]},
    },
    "defaults": {"queue": "light", "retry": {"max_attempts": 1}},
    "nodes": {"broken": {"handler": "fail", "params": {"message": "{{ inputs.text }}"}, "next": "END"}},
}
# Path, and something on it that shows the text or what would have to.
SCREENS = (
    "/",
    "/jobs?q={job}",
    "/jobs/{job}",
    "/jobs/{job}?tab=timeline",
    "/jobs/{job}/report",
    f"/workflows?q={WORKFLOW}",
    f"/workflows/{WORKFLOW}",
    f"/workflows/{WORKFLOW}?tab=inputs",
    f"/workflows/{WORKFLOW}?tab=yaml",
    f"/workflows/{WORKFLOW}?tab=versions",
    f"/workflows/{WORKFLOW}?tab=nodes",
    "/submit",
    f"/submit/{WORKFLOW}",
    f"/submit/{WORKFLOW}?as=yaml",
    f"/submit/{WORKFLOW}?as=json",
    f"/submit/{WORKFLOW}?as=code",
    "/assets",
    "/assets/{asset}",
    "/assets/{asset}?tab=facts",
    "/assets/{asset}?tab=revisions",
    "/assets/{asset}?tab=files",
    "/assets/{asset}?tab=lineage",
    "/assets/{asset}?tab=stac",
    "/approvals",
    "/tasks",
    "/tasks?tab=handlers",
    "/queues",
    "/queues?tab=dead-letters",
    "/nodes?show=all",
    "/health",
    "/settings",
    "/settings?tab=callbacks",
    "/settings?tab=platforms",
    "/about",
)
# Elements that only the hostile text would make; pictures of assets come from our own API.
MADE_OF_TEXT = "document.querySelectorAll('b, img[src=x], [onerror]').length"
# What makes the page wider than the window, if it is: the elements that end outside of it.
TOO_WIDE = """() => document.documentElement.scrollWidth <= window.innerWidth ? [] : ["too wide"].concat(
    [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > window.innerWidth)
        .map((one) => `${one.localName}.${one.getAttribute("class")}`))"""


@pytest.fixture(scope="module")
def places(up: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the paths name, and `url`: an API with storage."""
    register(up.api.dsn, load(json.dumps(FLOW), queues={"light"}).definition)
    job_id = up.submit(WORKFLOW)
    assert up.end_of(job_id)["status"] == "failed"
    conn = up.cluster.conn
    letter_id, callback_id = new_id(), new_id()
    conn.execute(
        "INSERT INTO dag_dead_letters (dead_letter_id, queue, reason, error_message, job_id, node_id, task_id,"
        " lease_losses, body) VALUES (%s, 'light', 'lease_lost', %s, %s, 'broken', %s, 3, %s)",
        [letter_id, HOSTILE, job_id, f"{job_id}-broken-1", json.dumps({"text": HOSTILE})],
    )
    conn.execute(
        "INSERT INTO dag_callbacks (callback_id, job_id, url, endpoint_url, host, body, status, settled_at, last_error)"
        " VALUES (%s, %s, 'https://127.0.0.1:9/h', 'https://127.0.0.1:9/h', 'https://127.0.0.1:9', '{}', 'dead',"
        " clock_timestamp(), %s)",
        [callback_id, job_id, HOSTILE],
    )
    settings = StorageSettings(str(tmp_path_factory.mktemp("storage")))
    data = MapData(conn, open_storage(settings, "default"), Path(tmp_path_factory.mktemp("rasters")))
    asset_id = data.add_asset(f"of all screens {HOSTILE}", 1, approval_state=ApprovalState.PENDING_REVIEW)
    data.add_revision(asset_id, 1, ApprovalState.PENDING_REVIEW, left=LOW, right=HIGH)
    with served(up.api.dsn, storage=settings) as api:
        key = api.key(Scope.READ, name=HOSTILE[:60])
        assert key
        yield {"job": job_id, "asset": asset_id, "url": api.url}
    conn.execute("DELETE FROM dag_dead_letters WHERE dead_letter_id = %s", [letter_id])
    conn.execute("DELETE FROM dag_callbacks WHERE callback_id = %s", [callback_id])


def problems_of(visitor: Visitor, path: str) -> list[str]:
    page = visitor.go(path)
    expect(page.locator("main .state-loading")).to_have_count(0)
    found = visitor.serious_findings()
    if page.evaluate(MADE_OF_TEXT) or page.title() == "owned":
        found.append("a text became markup")
    if outside := page.evaluate(TOO_WIDE):
        found.append(" ".join(outside)[:300])
    return [f"{path}: {problem}" for problem in found]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_hostile_texts_are_texts_on_every_screen(
    arrive: Arrive, places: dict[str, str], theme: str, width: int
) -> None:
    visitor = arrive(url=places["url"], theme=theme, width=width)
    # Not everything that health asks for runs in these tests.
    visitor.expected = {503}
    problems = [found for path in SCREENS for found in problems_of(visitor, path.format(**places))]
    assert not problems, "\n".join(problems)
    visitor.problems[:] = [problem for problem in visitor.problems if "GL Driver Message" not in problem]


def test_the_texts_are_really_on_the_screens(arrive: Arrive, places: dict[str, str]) -> None:
    visitor = arrive(url=places["url"])
    for path in (
        "/",
        f"/jobs?q={places['job']}",
        f"/workflows?q={WORKFLOW}",
        f"/workflows/{WORKFLOW}?tab=inputs",
        f"/submit/{WORKFLOW}",
        "/assets",
        "/approvals",
        "/queues?tab=dead-letters",
        "/settings?tab=callbacks",
    ):
        page = visitor.go(path)
        expect(page.locator("main")).to_contain_text("<b>bold</b>")
    visitor.press("/")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox").fill(WORKFLOW)
    expect(dialog).to_contain_text("<b>bold</b>")
    assert page.evaluate(MADE_OF_TEXT) == 0
    assert visitor.serious_findings() == []


def test_any_file_of_a_page_comes_from_the_server_itself(arrive: Arrive, places: dict[str, str]) -> None:
    """The policy holds in the browser: what a script would fetch elsewhere is refused."""
    visitor = arrive(url=places["url"])
    page = visitor.go("/jobs")
    refused = page.evaluate("() => fetch('http://127.0.0.1:9/elsewhere').then(() => 'fetched', () => 'refused')")
    assert refused == "refused"
    wait_until(lambda: any("Content Security Policy" in problem for problem in visitor.problems) or None, 10)
    visitor.problems.clear()

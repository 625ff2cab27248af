"""Dead letters: found, understood and requeued or discarded, by mouse and by keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from rmhdag.models.scopes import Scope
from rmhdag.store.identity import new_id
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

PATH = "/queues?tab=dead-letters"


@pytest.fixture
def failed_job(up: Running) -> Iterator[str]:
    """A job that has failed; dead letters that a test leaves open would be in the way of others."""
    job_id = up.submit("flaky")
    assert up.end_of(job_id)["status"] == "failed"
    yield job_id
    up.cluster.conn.execute("DELETE FROM dag_dead_letters")


def write_letter(up: Running, job_id: str, error: str = "3 workers died of it, the last w2") -> str:
    """As the orchestrator writes it when a task has cost too many workers."""
    letter_id = new_id()
    up.cluster.conn.execute(
        "INSERT INTO dag_dead_letters (dead_letter_id, queue, reason, error_message, job_id, node_id, task_id,"
        " lease_losses, body) VALUES (%s, 'light', 'lease_lost', %s, %s, 'broken', %s, 3, %s)",
        [letter_id, error, job_id, f"{job_id}-broken-1", json.dumps({"handler": "fail", "params": {"text": error}})],
    )
    return letter_id


def test_a_dead_letter_is_found_and_requeued_by_mouse(up: Running, visitor: Visitor, failed_job: str) -> None:
    letter_id = write_letter(up, failed_job)
    page = visitor.go("/")
    page.locator(".attention", has_text="1 dead letter waits").get_by_role("link").click()
    row = page.locator(f'tr[data-key="{letter_id}"]')
    expect(row).to_contain_text("its workers died of it")
    row.get_by_role("link", name="broken").click()
    assert f"letter={letter_id}" in page.url
    expect(page.locator(".letter-why")).to_contain_text("3 workers died of it, the last w2")
    expect(page.get_by_role("region", name="Payload")).to_contain_text('"handler": "fail"')
    assert visitor.serious_findings() == []
    page.get_by_role("button", name="Requeue", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A new job runs broken and what follows it again")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Requeue").click()
    page.get_by_role("link", name="Open the job").click()
    page.wait_for_url("**/ui/jobs/*")
    (rerun,) = up.get("jobs", rerun_of=failed_job)["jobs"]
    assert rerun["job_id"] in page.url
    assert up.get("dead-letters")["dead_letters"] == []


def test_a_dead_letter_is_found_and_requeued_by_keyboard_alone(up: Running, visitor: Visitor, failed_job: str) -> None:
    letter_id = write_letter(up, failed_job)
    page = visitor.go("/")
    visitor.press("g", "q")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(page.get_by_role("tab", name="Dead letters")).to_contain_text("1")
    visitor.tab_to(page.get_by_role("tab", name="Queues"))
    visitor.press("ArrowRight")
    row = page.locator(f'tr[data-key="{letter_id}"]')
    row.wait_for()
    visitor.press("j")
    expect(row).to_be_focused()
    visitor.press("Enter")
    expect(page.get_by_role("region", name="Payload")).to_be_visible()
    visitor.press("r")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Requeue")).to_be_enabled()
    visitor.tab_to(dialog.get_by_role("button", name="Requeue"))
    visitor.press("Enter")
    expect(page.get_by_text("a new job runs it again")).to_be_visible()
    assert len(up.get("jobs", rerun_of=failed_job)["jobs"]) == 1


def test_all_are_requeued_and_one_is_discarded_each_with_a_preview(
    up: Running, visitor: Visitor, failed_job: str
) -> None:
    first, second = write_letter(up, failed_job), write_letter(up, failed_job)
    page = visitor.go(f"{PATH}&letter={first}")
    page.get_by_role("button", name="Discard", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Nothing of it runs again")
    dialog.get_by_role("button", name="Discard").click()
    expect(page.locator(f'tr[data-key="{first}"]')).to_have_count(0)
    page.locator(f'tr[data-key="{second}"]').wait_for()
    page.get_by_role("button", name="Requeue all 1").click()
    expect(dialog).to_contain_text("1 dead letter of 1 job get another chance")
    dialog.get_by_role("button", name="Requeue 1").click()
    expect(page.get_by_text("No dead letters", exact=True)).to_be_visible()
    page.get_by_role("button", name="Settled too").click()
    expect(page.locator(f'tr[data-key="{first}"]')).to_contain_text("discarded")
    expect(page.locator(f'tr[data-key="{second}"]')).to_contain_text("requeued")
    assert "settled=yes" in page.url


def test_hostile_letters_are_text_and_readers_are_offered_no_action(
    up: Running, arrive: Arrive, failed_job: str
) -> None:
    letter_id = write_letter(up, failed_job, HOSTILE)
    visitor = arrive(Scope.READ)
    page = visitor.go(f"{PATH}&letter={letter_id}")
    expect(page.locator(".letter-why")).to_contain_text(HOSTILE)
    expect(page.get_by_role("region", name="Payload")).to_contain_text("<b>bold</b>")
    expect(page.get_by_text("need the scope “operate”")).to_be_visible()
    for name in ("Requeue", "Discard", "Requeue all"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    visitor.press("r")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.title() == "Queues · rmhdag"
    assert visitor.serious_findings() == []
    page.goto(f"{visitor.url}/ui{PATH}&reason=nothing")
    expect(page.get_by_text("No dead letter matches")).to_be_visible()

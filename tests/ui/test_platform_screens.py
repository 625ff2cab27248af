"""Queues, processes, health, settings, tasks and about: what they say, what they offer, and to whom."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from rmhdag.models.chaos_results import read_results
from rmhdag.models.rows import SCHEMA_VERSION
from rmhdag.models.scopes import Scope
from rmhdag.store.identity import new_id
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

SCREENS = {
    "Queues": ("/queues", "/queues?tab=dead-letters", "/queues?queue=light"),
    "Workers and orchestrators": ("/nodes", "/nodes?show=all"),
    "Health": ("/health", "/health?show=problems"),
    "Settings": ("/settings", "/settings?tab=callbacks", "/settings?tab=platforms"),
    "About": ("/about",),
    "Tasks": ("/tasks", "/tasks?tab=handlers"),
}


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
@pytest.mark.parametrize("title", SCREENS)
def test_nobody_is_kept_out(up: Running, arrive: Arrive, title: str, theme: str, width: int) -> None:
    up.end_of(up.submit("flaky"))
    visitor = arrive(theme=theme, width=width)
    visitor.expected = {503}
    for path in SCREENS[title]:
        page = visitor.go(path)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.locator(".skeleton")).to_have_count(0)
        assert visitor.serious_findings() == [], path
        overflow = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, f"{path} is {overflow} px too wide"


@pytest.mark.parametrize("path", ["/queues", "/nodes", "/health", "/settings", "/tasks"])
def test_high_contrast_has_no_findings_either(arrive: Arrive, path: str) -> None:
    visitor = arrive()
    visitor.expected = {503}
    visitor.page.evaluate("() => localStorage.setItem('rmhdag.theme', JSON.stringify('contrast'))")
    page = visitor.go(path)
    expect(page.locator("html")).to_have_attribute("data-theme", "contrast")
    expect(page.locator(".skeleton")).to_have_count(0)
    assert visitor.serious_findings() == []


def test_keys_lead_to_the_screens(visitor: Visitor) -> None:
    visitor.expected = {503}
    page = visitor.go("/")
    for key, title in (
        ("q", "Queues"),
        ("n", "Workers and orchestrators"),
        ("h", "Health"),
        ("t", "Tasks"),
        ("p", "Settings"),
    ):
        visitor.press("g", key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.locator(".nav-link[aria-current=page]")).to_have_count(1)


def test_a_queue_without_a_worker_is_told_first(up: Running, visitor: Visitor) -> None:
    visitor.expected = {503}
    job_id = up.submit("lonely")
    page = visitor.go("/queues")
    expect(page.locator(".notice")).to_contain_text("1 task waits in heavy, and no worker serves it.")
    row = page.locator('tr[data-key="heavy"]')
    expect(row).to_contain_text("no worker")
    expect(row).to_contain_text("never")
    row.get_by_role("link", name="heavy").click()
    detail = page.get_by_role("region", name="Queue heavy")
    expect(detail).to_contain_text("only")
    expect(detail).to_contain_text("rmhdag worker --queue heavy")
    assert "queue=heavy" in page.url
    visitor.go("/health?show=problems")
    check = page.locator('[data-check="unserved queues"]')
    expect(check).to_contain_text("heavy")
    expect(check).to_contain_text("Start a worker for them")
    expect(check).to_contain_text("Tasks wait in a queue that no live worker serves")
    expect(page.locator(".health-verdict")).not_to_have_attribute("data-status", "HEALTHY")
    up.post(f"jobs/{job_id}/cancel")
    up.end_of(job_id)


def test_a_worker_shows_what_it_does_and_is_drained_with_a_preview(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("slow", seconds=600)
    up.wait_for_node(job_id, "nap", "running")
    (nap,) = up.get("tasks", job_id=job_id, status="running")["tasks"]
    worker_id = nap["worker_id"]
    page = visitor.go(f"/nodes?worker={worker_id}")
    card = page.locator(f'[data-process="{worker_id}"]')
    expect(card).to_have_attribute("aria-current", "true")
    expect(card.get_by_test_id("heartbeat")).to_contain_text("s ago")
    expect(card.get_by_role("link", name="nap")).to_be_visible()
    expect(card.locator("dt", has_text="Memory")).to_be_visible()
    up.post(f"jobs/{job_id}/cancel")
    up.end_of(job_id)
    process = up.cluster.worker()
    other = up.wait(lambda: find_worker(up, process.pid))
    card = page.locator(f'[data-process="{other}"]')
    card.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It takes no more tasks")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Drain").click()
    assert process.wait(45) in (0, -signal.SIGTERM)
    expect(card).to_have_count(0)


def find_worker(up: Running, process_id: int) -> str | None:
    workers = up.get("workers")["workers"]
    return next((str(one["worker_id"]) for one in workers if one["process_id"] == process_id), None)


@contextmanager
def disguised_worker(up: Running) -> Iterator[str]:
    """The worker, as if it were of an old version, on a host with a hostile name."""
    (worker,) = [one for one in up.get("workers")["workers"] if one["alive"]]
    change = "UPDATE dag_workers SET host = %s, version = %s WHERE worker_id = %s"
    up.cluster.conn.execute(change, [HOSTILE, "0.0.1", worker["worker_id"]])
    yield str(worker["worker_id"])
    up.cluster.conn.execute(change, [worker["host"], worker["version"], worker["worker_id"]])


def test_mixed_versions_are_told_and_names_are_text(up: Running, arrive: Arrive) -> None:
    with disguised_worker(up) as worker_id:
        visitor = arrive(Scope.READ)
        page = visitor.go("/nodes")
        expect(page.locator(".notice")).to_contain_text("1 process of 0.0.1")
        expect(page.locator(f'[data-process="{worker_id}"]')).to_contain_text(HOSTILE)
        # Who may only read is not offered to drain anything.
        expect(page.get_by_role("button", name="Drain")).to_have_count(0)
        assert page.title() == "Workers and orchestrators · rmhdag"


def test_a_key_is_created_shown_once_and_revoked(up: Running, visitor: Visitor) -> None:
    page = visitor.go("/settings")
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Owner").fill("survey robot")
    dialog.get_by_label("submit jobs").check()
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Create").click()
    secret = page.get_by_test_id("new-key").inner_text()
    row = page.locator("tbody tr[data-row]", has_text="survey robot")
    page.get_by_role("button", name="I have copied it").click()
    expect(row).to_contain_text("read, submit")
    answer = up.client.get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
    assert answer.json()["name"] == "survey robot"
    row.get_by_role("button", name="Revoke").click()
    expect(dialog).to_contain_text("It stops working at once")
    dialog.get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert up.client.get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    page.get_by_role("button", name="Revoked and expired too").click()
    expect(row).to_contain_text("revoked")


def test_a_callback_that_was_given_up_is_sent_again(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("flaky", fails=False)
    up.end_of(job_id)
    callback_id = new_id()
    up.cluster.conn.execute(
        "INSERT INTO dag_callbacks (callback_id, job_id, url, endpoint_url, host, body, status, settled_at, last_error)"
        " VALUES (%s, %s, 'https://127.0.0.1:9/hook', 'https://127.0.0.1:9/hook', 'https://127.0.0.1:9', '{}', 'dead',"
        " clock_timestamp(), %s)",
        [callback_id, job_id, HOSTILE],
    )
    page = visitor.go("/settings?tab=callbacks&status=dead")
    row = page.locator(f'tr[data-key="{callback_id}"]')
    expect(row).to_contain_text("given up")
    expect(row).to_contain_text(HOSTILE)
    row.get_by_role("button", name="Send again").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_text("It is sent again.")).to_be_visible()
    assert up.get(f"callbacks/{callback_id}")["redelivered_by"] == "ada"
    up.cluster.conn.execute("DELETE FROM dag_callbacks WHERE callback_id = %s", [callback_id])


def test_readers_see_what_they_may_and_are_offered_nothing_else(arrive: Arrive) -> None:
    visitor = arrive(Scope.READ)
    page = visitor.go("/settings")
    expect(page.get_by_text("You may not see the keys of this namespace")).to_be_visible()
    assert visitor.serious_findings() == []
    visitor.go("/settings?tab=platforms")
    page.locator("tbody tr[data-row]").first.wait_for()
    for name in ("Create a key", "Revoke", "Send again", "Deactivate"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_tasks_are_filtered_and_ordered_in_the_address(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    page = visitor.go("/tasks?status=failed&handler=fail")
    row = page.locator("tbody tr[data-row]", has_text="no luck today").first
    expect(row).to_contain_text("failed")
    page.get_by_role("button", name="Slowest").click()
    assert "order=slowest" in page.url
    page.get_by_role("button", name="Remove this filter").click()
    expect(page.get_by_role("button", name="Remove this filter")).to_have_count(0)
    assert "handler" not in page.url
    page.get_by_role("tab", name="By handler").click()
    expect(page.locator('tr[data-key="fail"]')).to_contain_text("100 %")
    visitor.go("/tasks?handler=nobodys")
    page.get_by_role("button", name="Clear the filter").click()
    page.locator("tbody tr[data-row]").first.wait_for()


def test_about_tells_versions_and_invents_nothing(visitor: Visitor) -> None:
    visitor.expected = {503}
    page = visitor.go("/about")
    expect(page.get_by_role("region", name="This installation")).to_contain_text(f"version {SCHEMA_VERSION}")
    trust = page.get_by_role("region", name="Does it lose work?")
    rows = trust.get_by_role("table", name="Chaos campaigns").locator("tbody tr[data-row]")
    campaigns = read_results().campaigns
    expect(rows).to_have_count(len(campaigns))
    for row, campaign in zip(rows.all(), campaigns, strict=True):
        cells = [text.strip() for text in row.locator("td").all_inner_texts()]
        assert cells[0] == campaign.command.removeprefix("rmhdag chaos ")
        assert cells[2] == f"{campaign.jobs:,}"
        assert cells[-4:] == [
            str(number) for number in (campaign.lost, campaign.doubled, campaign.stuck, campaign.late)
        ]
    trust.get_by_text("What the columns mean").click()
    expect(trust).to_contain_text("Jobs that did not end within two minutes after the last fault.")
    expect(trust).to_contain_text("a dead worker's tasks run again")
    expect(trust).to_contain_text("not on this platform")
    assert visitor.serious_findings() == []

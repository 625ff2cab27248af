"""The report of a job: all of it on one page that can be printed, and nothing of it is markup."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive


@pytest.fixture(scope="module")
def job_id(up: Running) -> str:
    job_id = up.submit("flaky", numbers=[HOSTILE, 2, 3])
    assert up.end_of(job_id)["status"] == "failed"
    return job_id


def test_a_job_is_reported_with_its_cause_and_printed(up: Running, visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}")
    page.get_by_role("link", name="Report").click()
    report = page.locator(".report")
    expect(report).to_contain_text("RuntimeError: no luck today")
    expect(report.get_by_role("heading", name="Failed: broken")).to_be_visible()
    expect(report.locator(".report-lines")).to_contain_text("Traceback (most recent call last)")
    expect(report.locator(".report-table tbody tr")).to_have_count(len(up.get(f"jobs/{job_id}/overview")["nodes"]))
    expect(report.locator(".report-table")).to_contain_text("3 of 3 children completed")
    expect(report.locator(".report-values").first).to_contain_text("<b>bold</b>")
    # A short list stays on one line of the paper.
    expect(report.locator(".report-values").first).to_contain_text(",2,3]")
    expect(report.locator(".report-events li").first).to_be_visible()
    assert page.locator("main b, main img").count() == 0
    assert visitor.serious_findings() == []
    page.emulate_media(media="print")
    expect(page.locator(".top-bar")).to_be_hidden()
    expect(page.locator(".side-nav")).to_be_hidden()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(report).to_be_visible()
    # A page that the printer would cut off at its right side is no report.
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    pages = page.pdf(format="A4")
    assert pages.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) in range(1, 8)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_white_in_every_theme(arrive: Arrive, job_id: str, theme: str) -> None:
    visitor = arrive(theme=theme)
    page = visitor.go(f"/jobs/{job_id}/report")
    page.locator(".report").wait_for()
    assert visitor.serious_findings() == []
    page.emulate_media(media="print")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("() => getComputedStyle(document.querySelector('.card')).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark' }")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_report_fits_a_telephone_and_says_what_is_missing(arrive: Arrive, job_id: str) -> None:
    visitor = arrive(width=360)
    page = visitor.go(f"/jobs/{job_id}/report")
    page.locator(".report").wait_for()
    assert visitor.serious_findings() == []
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    visitor.expected = {404}
    visitor.go("/jobs/0198f3c2a1b27c3d8e4f5a6b7c8d9e0f/report")
    expect(page.get_by_role("alert")).to_contain_text("Could not load the report")


def test_labels_are_on_the_report_and_nowhere_if_there_are_none(up: Running, visitor: Visitor, job_id: str) -> None:
    body = {"workflow_id": "flaky", "input_params": {"fails": False}, "labels": {"aoi": "oslo"}}
    labelled = up.post("jobs", body).json()["job_id"]
    page = visitor.go(f"/jobs/{labelled}/report")
    expect(page.locator(".report .facts").first).to_contain_text("aoi=oslo")
    page = visitor.go(f"/jobs/{labelled}")
    expect(page.locator(".job-head .facts")).to_contain_text("aoi=oslo")
    page = visitor.go(f"/jobs/{job_id}")
    expect(page.locator(".job-head .facts")).not_to_contain_text("Labels")


def test_keys_are_offered_as_buttons_are_and_can_be_switched_off(arrive: Arrive, job_id: str) -> None:
    reader = arrive(Scope.READ, name="carl")
    page = reader.go(f"/jobs/{job_id}")
    page.locator("[data-node=broken]").wait_for()
    reader.press("r", "Shift+R", "c")
    expect(page.get_by_role("dialog")).to_have_count(0)
    reader.press("?")
    keys = page.get_by_role("dialog")
    expect(keys).to_contain_text("Pane “YAML”")
    expect(keys).not_to_contain_text("Retry")
    keys.get_by_role("checkbox").uncheck()
    reader.press("Escape")
    expect(keys).to_have_count(0)
    reader.press("3", "5", "l", "Shift+T")
    reader.press("Control+K")
    expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    assert "tab=" not in page.url
    expect(page.locator("html")).to_have_attribute("data-theme", "system")


def test_the_list_of_keys_names_what_a_key_does_here(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}?tab=logs")
    page.locator(".log-row").first.wait_for()
    visitor.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next match")
    expect(page.get_by_role("dialog")).not_to_contain_text("New job")


def test_a_job_is_cloned_into_the_form(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}")
    page.get_by_role("link", name="Clone to form").click()
    expect(page.get_by_label("numbers")).to_have_value(re.compile("<b>bold</b>"))
    expect(page.get_by_text("The server would accept this")).to_be_visible()


def test_actions_are_found_by_their_words(visitor: Visitor, job_id: str) -> None:
    page = visitor.go(f"/jobs/{job_id}")
    page.locator("[data-node=broken]").wait_for()
    visitor.press("Control+K")
    box = page.get_by_role("dialog").get_by_role("combobox")
    box.fill("retry what")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_contain_text("Retry what failed")
    assert visitor.serious_findings() == []
    visitor.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Retry what failed?")
    visitor.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    visitor.press("/")
    box.fill("next theme")
    visitor.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")

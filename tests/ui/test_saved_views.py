"""Saved views of the list of jobs: filter, columns and density under a name, by pointer and by keyboard, as links."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

NAME = HOSTILE[:60].strip()


@pytest.fixture(scope="module", autouse=True)
def jobs(up: Running) -> None:
    done = up.submit("flaky", fails=False)
    failed = up.submit("flaky")
    up.end_of(done)
    up.end_of(failed)


def open_views(page: Page) -> None:
    page.locator(".filter-bar summary").filter(has_text="View").click()


def save(page: Page, name: str) -> None:
    page.get_by_label("Name of the view").fill(name)
    page.get_by_role("button", name="Save", exact=True).click()


def test_a_view_is_saved_picked_renamed_and_deleted(visitor: Visitor) -> None:
    page = visitor.go("/jobs?q=status:failed")
    page.locator("tbody tr[data-row]").first.wait_for()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Correlation").check()
    page.get_by_label("roomy").check()
    expect(page.locator("html")).to_have_attribute("data-density", "roomy")
    visitor.press("Escape")
    expect(page.get_by_label("roomy")).to_be_hidden()
    open_views(page)
    expect(page.locator(".jobs-views")).to_contain_text("No view is saved yet")
    save(page, NAME)
    link = page.get_by_role("list", name="Saved views").get_by_role("link")
    expect(link).to_have_text(NAME)
    assert visitor.serious_findings() == []
    # Something else is chosen meanwhile; the view brings back all that it is made of.
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Correlation").uncheck()
    page.get_by_label("compact").check()
    visitor.go("/jobs")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    expect(page.get_by_role("columnheader", name="Correlation")).to_have_count(0)
    open_views(page)
    link.click()
    expect(page.get_by_label("Filter the jobs")).to_have_value("status:failed")
    expect(page.get_by_role("columnheader", name="Correlation")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-density", "roomy")
    expect(page.locator(".filter-bar summary").filter(has_text="View:")).to_contain_text(NAME)
    # What the view asks for is not what this person chose for all other lists.
    visitor.go("/tasks")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    page.go_back()
    open_views(page)
    page.get_by_role("button", name=f"Rename {NAME}").click()
    page.get_by_label(f"New name of {NAME}").fill("Failed, roomy")
    page.keyboard.press("Enter")
    expect(link).to_have_text("Failed, roomy")
    page.get_by_role("button", name="Delete Failed, roomy").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete the view “Failed, roomy”?")
    dialog.get_by_role("button", name="Delete the view").click()
    expect(link).to_have_count(0)
    assert page.locator("main b").count() == 0
    assert page.title() == "Jobs · rmhdag"


def test_a_view_is_passed_on_as_a_link(visitor: Visitor, arrive: Arrive) -> None:
    page = visitor.go("/jobs?q=status:completed")
    page.locator("tbody tr[data-row]").first.wait_for()
    open_views(page)
    save(page, "Done")
    address = page.get_by_role("link", name="Done").get_attribute("href")
    assert address is not None
    other = arrive(name="bob")
    theirs = other.go(address.removeprefix("/ui"))
    expect(theirs.get_by_label("Filter the jobs")).to_have_value("status:completed")
    theirs.locator("tbody tr[data-row]").first.wait_for()
    # Bob has the view on the screen, but not among his own.
    open_views(theirs)
    expect(theirs.locator(".jobs-views")).to_contain_text("No view is saved yet")


def test_views_belong_to_whom_they_were_saved_by(arrive: Arrive) -> None:
    ada = arrive(name="ada")
    page = ada.go("/jobs")
    open_views(page)
    save(page, "Mine")
    expect(page.get_by_role("link", name="Mine")).to_be_visible()
    kept: dict[str, str] = page.evaluate("() => Object.fromEntries(Object.entries(localStorage))")
    assert [name for name in kept if "job-views" in name] == ["rmhdag.job-views.default/ada"]


def test_views_are_reached_by_keyboard_alone(visitor: Visitor) -> None:
    page = visitor.go("/jobs?q=status:failed")
    page.locator("tbody tr[data-row]").first.wait_for()
    visitor.press("v")
    field = page.get_by_label("Name of the view")
    expect(field).to_be_focused()
    page.keyboard.type("Failed")
    visitor.press("Enter")
    expect(page.get_by_role("link", name="Failed")).to_be_visible()
    visitor.press("Escape")
    expect(page.locator(".filter-bar summary").filter(has_text="View")).to_be_focused()
    expect(page.get_by_role("link", name="Failed")).to_be_hidden()
    visitor.go("/jobs")
    visitor.press("v")
    expect(page.get_by_role("link", name="Failed")).to_be_focused()
    visitor.press("Enter")
    expect(page.get_by_label("Filter the jobs")).to_have_value("status:failed")


@pytest.mark.parametrize(
    "kept",
    ["null", "7", '{"a": 1}', "[null]", '[{"name": 1}]', "not json", '[{"name": "a"}]'],
)
def test_what_else_a_browser_kept_does_no_harm(visitor: Visitor, kept: str) -> None:
    # This page asks for the health, and queues without workers make that 503.
    visitor.expected = {503}
    page = visitor.go("/about")
    page.evaluate("(text) => localStorage.setItem('rmhdag.job-views.default/ada', text)", kept)
    visitor.go("/jobs")
    open_views(page)
    expect(page.locator(".jobs-views")).to_contain_text("No view is saved yet")


@pytest.mark.parametrize("query", ["columns=nobody,<b>x</b>&density=huge", "columns=none", "columns=&density="])
def test_addresses_with_other_columns_do_no_harm(visitor: Visitor, query: str) -> None:
    page = visitor.go(f"/jobs?{query}")
    page.locator("tbody tr[data-row]").first.wait_for()
    expect(page.get_by_role("columnheader", name="Status")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    assert page.locator("main b").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_menu_fits_a_telephone(arrive: Arrive, theme: str) -> None:
    visitor = arrive(Scope.READ, theme=theme, width=360, name="carl")
    # This page asks for the health, and queues without workers make that 503.
    visitor.expected = {503}
    page = visitor.go("/about")
    views = [{"name": f"{NAME} {number}"[-60:], "query": "q=status%3Afailed"} for number in range(3)]
    page.evaluate("(text) => localStorage.setItem('rmhdag.job-views.default/carl', text)", json.dumps(views))
    visitor.go("/jobs")
    open_views(page)
    expect(page.get_by_role("list", name="Saved views").get_by_role("link")).to_have_count(3)
    assert visitor.serious_findings() == []
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0

"""The ways in and out: a link, a key, the organisation; and what somebody without rights is offered."""

from __future__ import annotations

from playwright.sync_api import expect

from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.ui.conftest import Arrive


def test_a_key_signs_in_and_comes_back_to_the_page(up: Running, arrive: Arrive) -> None:
    visitor = arrive(signed_in=False)
    visitor.expected = {401}
    page = visitor.go("/jobs?q=status:failed")
    page.get_by_label("API key").fill("rmhdag_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The key is not known.")
    assert visitor.serious_findings() == []
    page.get_by_label("API key").fill(up.api.key(Scope.READ, name="grace"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert page.url.endswith("/ui/jobs?q=status:failed")
    # Nobody is offered what the key does not allow.
    expect(page.get_by_role("link", name="New job")).to_have_count(0)
    page.get_by_label("Signed in as grace").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_the_organisation_signs_in(arrive: Arrive) -> None:
    visitor = arrive(signed_in=False)
    visitor.expected = {401}
    page = visitor.go("/jobs")
    visitor.problems.clear()
    page.get_by_role("link", name="Sign in with your organisation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.get_by_label("Signed in as ada").wait_for()
    # The way led over the issuer, and only the way.
    assert all("/authorize" in problem for problem in visitor.problems)
    visitor.problems.clear()


def test_an_old_link_says_so(arrive: Arrive) -> None:
    visitor = arrive(signed_in=False)
    visitor.expected = {401}
    visitor.page.goto(f"{visitor.url}/login?token=old")
    expect(visitor.page.get_by_role("alert")).to_contain_text("works once")


def test_an_unknown_page_offers_a_search(arrive: Arrive) -> None:
    visitor = arrive()
    page = visitor.go("/nothing/here")
    expect(page.get_by_text("There is no such page")).to_be_visible()
    assert visitor.serious_findings() == []

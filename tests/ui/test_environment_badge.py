"""In which environment one is: on every page and on the sign-in page, with a red border where it is production."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from rmhdag.models.scopes import Scope
from tests.api.running import Running
from tests.api.serving import served
from tests.ui.conftest import Arrive

BORDER = "getComputedStyle(document.documentElement, '::after').borderTopWidth"
# Dialogs are above the page and its border; what is behind them has one then.
BORDER_OF_DIALOG = "getComputedStyle(document.querySelector('dialog[open]'), '::backdrop').borderTopWidth"


@pytest.mark.parametrize(
    ("environment", "tone", "border", "theme", "width"),
    [
        ("production", "bad", "3px", "light", 1280),
        ("prod-eu", "bad", "3px", "dark", 360),
        ("staging", "warning", "0px", "dark", 1280),
        ("development", "active", "0px", "light", 360),
    ],
)
def test_each_page_names_the_environment(
    up: Running, arrive: Arrive, environment: str, tone: str, border: str, theme: str, width: int
) -> None:
    with served(up.api.dsn, environment=environment) as api:
        visitor = arrive(url=api.url, signed_in=False, theme=theme, width=width)
        visitor.expected = {401}
        page = visitor.go("/jobs")
        badge = page.locator(".environment")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(badge).to_have_text(f"Environment: {environment}")
        assert visitor.serious_findings() == []
        page.get_by_label("API key").fill(api.key(Scope.READ))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        expect(badge).to_have_attribute("data-tone", tone)
        expect(badge).to_be_in_viewport()
        assert page.evaluate(BORDER) == border
        assert visitor.serious_findings() == []
        assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
        # The border is in nobody's way.
        page.get_by_role("button", name="Search any id").click(position={"x": 2, "y": 2})
        expect(page.get_by_role("dialog")).to_be_visible()
        assert page.evaluate(BORDER_OF_DIALOG) == border
        visitor.context.close()


def test_without_a_name_nothing_is_shown(arrive: Arrive) -> None:
    page = arrive().go("/jobs")
    expect(page.locator(".environment")).to_have_count(0)
    assert page.evaluate(BORDER) == "0px"

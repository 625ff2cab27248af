"""A real browser on a real platform, which notes everything that a page must never do."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "ui/node_modules/axe-core/axe.min.js"
CHROMIUM = "/usr/bin/chromium"
OPTIONS = (
    "--no-sandbox --disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--disable-dev-shm-usage"
).split()
# More would be no way to go.
MOST_TABS = 80
# A hostile text: markup, an attribute, a control sequence of terminals, and text that runs backwards.
HOSTILE = '<img src=x onerror="document.title=\'owned\'"><b>bold</b> "quoted" &lt; {{ 1 }} $& ${x}'


class Visitor:
    """One browser window. `problems` is what was wrong: errors in the console, breaches of the policy, other hosts."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.context = context
        self.problems: list[str] = []
        # Answers that a test expects to be refused.
        self.expected: set[int] = set()
        self.streams = 0
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._watch)
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if any(f"status of {status}" in message.text for status in self.expected):
            return
        self.problems.append(f"console: {message.text}")

    def _watch(self, request: Request) -> None:
        parts = urlsplit(request.url)
        self.streams += parts.path == "/api/v1/events/stream"
        if parts.scheme not in ("blob", "data") and f"{parts.scheme}://{parts.netloc}" != self.url:
            self.problems.append(f"another host: {request.url}")

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.url}/ui{path}")
        self.page.locator("h1").first.wait_for()
        return self.page

    def see(self, text: str) -> Locator:
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, target: Locator) -> None:
        """Press Tab until it has the focus."""
        target.wait_for()
        for _ in range(MOST_TABS):
            self.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"Tab does not lead to {target}")

    def serious_findings(self, page: Page | None = None) -> list[str]:
        """What axe has to say, of the kinds that keep people out."""
        page = page or self.page
        # Injected as a script of the test: a tag in the page would break the policy.
        page.evaluate(AXE.read_text())
        result: dict[str, Any] = page.evaluate(
            "() => axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})"
        )
        return [
            f"{finding['impact']} {finding['id']}: {node['target']} {node['failureSummary'][:200]}"
            for finding in result["violations"]
            if finding["impact"] in ("serious", "critical")
            for node in finding["nodes"][:3]
        ]

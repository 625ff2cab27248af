"""The web interface with much data, in Chromium: first paint, a large fan-out, logs, filters, live events, outages.

`scripts/bench-ui` starts a PostgreSQL and an API of its own, seeds them by SQL, and prints a table: figure, wanted,
measured. No orchestrator runs: what it would commit is committed by this script, so that the moment is known.
`--data FOLDER` keeps the seeded data there for the next run, and `--seed-only` ends once they are there.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_ui_data import LARGE, SMALL, Seeded, Sizes, add_events, complete_node, seed

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.migration import apply

CHROMIUM = "/usr/bin/chromium"
# Functions of the page that wait: what never appears ends the run with its name.
GIVE_UP = """setTimeout(() => fail(new Error(`${selector} was not drawn within two minutes`)), 120_000);"""
OPTIONS = (
    "--no-sandbox --disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--disable-dev-shm-usage --enable-precise-memory-info"
).split()
TABS = 8
EVENTS_AT_ONCE = 500
PATIENCE_MS = 120_000
# A selector is there, and a frame is drawn with it: milliseconds since the navigation began.
SINCE_NAVIGATION = f"""(selector) => new Promise((done, fail) => {{
    {GIVE_UP}
    const look = () => document.querySelector(selector)
        ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
    look();
}})"""
# The same since an event of the page. The promise is awaited later.
SINCE_EVENT = f"""([event, selector]) => {{
    window.measured = new Promise((done, fail) => {{
        {GIVE_UP}
        let start;
        addEventListener(event, () => {{ start ??= performance.now(); }}, {{ capture: true, once: true }});
        const look = () => start !== undefined && document.querySelector(selector)
            ? requestAnimationFrame(() => done(performance.now() - start)) : requestAnimationFrame(look);
        look();
    }});
}}"""
# The moment of the frame in which a selector is drawn, by the clock.
MOMENT = f"""(selector) => {{
    window.measured = new Promise((done, fail) => {{
        {GIVE_UP}
        const look = () => document.querySelector(selector)
            ? requestAnimationFrame(() => done(Date.now())) : requestAnimationFrame(look);
        look();
    }});
}}"""
FIRST_PAINT = """() => new Promise((done) => {
    const look = () => {
        const entry = performance.getEntriesByName("first-contentful-paint")[0];
        if (entry) done(entry.startTime); else requestAnimationFrame(look);
    };
    look();
})"""


class Figure(NamedTuple):
    name: str
    unit: str
    most: float
    measured: float

    @property
    def is_met(self) -> bool:
        return self.measured <= self.most


class Bench:
    def __init__(self, browser: Browser, conn: Conn, api: ApiProcess, seeded: Seeded, options: argparse.Namespace):
        self.conn = conn
        self.api = api
        self.seeded = seeded
        self.options = options
        self.browser = browser
        self.figures: list[Figure] = []
        self.seq = 1
        self.context = self._sign_in()

    def _sign_in(self) -> BrowserContext:
        context = self.browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE_MS)
        token = api_keys.create_login(
            self.conn, "bench", (Scope.READ, Scope.OPERATE), created_by="bench", namespace="default"
        )
        page = context.new_page()
        page.goto(f"{self.api.url}/login?token={token}")
        page.locator("h1").first.wait_for()
        page.close()
        return context

    def note(self, name: str, unit: str, most: float, values: list[float]) -> None:
        figure = Figure(name, unit, most, statistics.median(values))
        self.figures.append(figure)
        if not self.options.json:
            word = "ok" if figure.is_met else "MISSED"
            print(
                f"{name:<58} {f'<= {most:,.0f} {unit}':>14} {f'{figure.measured:,.0f} {unit}':>14}  {word}", flush=True
            )

    def open(self, path: str) -> Page:
        page = self.context.new_page()
        page.goto(f"{self.api.url}/ui{path}", wait_until="commit")
        return page

    def live(self, page: Page) -> Page:
        page.locator("[data-live=live]").wait_for()
        return page

    def rounds(self, measure: Callable[[], float]) -> list[float]:
        return [measure() for _ in range(self.options.rounds)]

    def loading(self, path: str, selector: str) -> Callable[[], float]:
        def measure() -> float:
            page = self.open(path)
            milliseconds: float = page.evaluate(SINCE_NAVIGATION, selector)
            page.close()
            return milliseconds

        return measure

    def first_paint(self) -> float:
        page = self.open("/jobs")
        milliseconds: float = page.evaluate(FIRST_PAINT)
        page.close()
        return milliseconds

    def json_bytes(self, query: str, selector: str) -> float:
        responses: list[Response] = []
        page = self.context.new_page()
        page.on("response", lambda response: responses.append(response))
        page.goto(f"{self.api.url}/ui/jobs/{self.seeded.large_id}{query}")
        page.locator(selector).wait_for()
        self.live(page)
        page.locator("main .state-loading").wait_for(state="detached")
        answers = [one for one in responses if "/api/v1/" in one.url and "/stream" not in one.url]
        kilobytes = sum(len(one.body()) for one in answers) / 1000
        page.close()
        return kilobytes

    def log_jump(self) -> float:
        page = self.open(f"/jobs/{self.seeded.large_id}?tab=logs")
        page.locator(".log-row").first.wait_for()
        page.get_by_role("log").focus()
        page.evaluate(SINCE_EVENT, ["keydown", '.log-row[data-line="1"]'])
        page.keyboard.press("Home")
        milliseconds: float = page.evaluate("window.measured")
        page.close()
        return milliseconds

    def list_filter(self) -> float:
        page = self.live(self.open("/jobs"))
        page.locator("tbody tr[data-row]").first.wait_for()
        # Of the first rows, the second is completed until the filter holds.
        page.evaluate(SINCE_EVENT, ["pointerdown", "tbody tr[data-row]:nth-child(2) [data-status=failed]"])
        page.get_by_role("button", name="failed").first.click()
        milliseconds: float = page.evaluate("window.measured")
        page.close()
        return milliseconds

    def status_to_pixel(self) -> list[float]:
        page = self.live(self.open(f"/jobs/{self.seeded.live_id}"))
        delays = []
        for number in range(self.options.rounds):
            node = f"n{number}"
            page.locator(f'[data-node="{node}"][data-status="running"]').wait_for()
            page.evaluate(MOMENT, f'[data-node="{node}"][data-status="completed"]')
            complete_node(self.conn, self.seeded.live_id, node, self.seq)
            self.seq += 1
            committed = time.time() * 1000
            delays.append(max(0.0, page.evaluate("window.measured") - committed))
        page.close()
        return delays

    def heap_after_events(self) -> float:
        """The page of a running job, after as many events as an hour has."""
        page = self.live(self.open(f"/jobs/{self.seeded.live_id}"))
        nodes = self.options.graph_nodes
        page.evaluate(MOMENT, f'[data-node="n{nodes - 1}"][data-status="completed"]')
        left = self.options.events
        while left > 0:
            count = min(EVENTS_AT_ONCE, left)
            add_events(self.conn, self.seeded.live_id, self.seq, count, nodes)
            self.seq += count
            left -= count
        # The last event of all is one that shows.
        complete_node(self.conn, self.seeded.live_id, f"n{nodes - 1}", self.seq)
        self.seq += 1
        page.evaluate("window.measured")
        session = self.context.new_cdp_session(page)
        session.send("HeapProfiler.enable")
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        page.close()
        return float(metrics["JSHeapUsedSize"]) / 1e6

    def eight_tabs(self) -> float:
        """Until the slowest of them shows its rows."""
        began = time.monotonic()
        pages = [self.open("/jobs") for _ in range(TABS)]
        for page in pages:
            page.locator("tbody tr[data-row]").first.wait_for()
        seconds = time.monotonic() - began
        for page in pages:
            page.close()
        return seconds

    def recovery(self) -> float:
        """From the first answer of the API that is back to a page that is live again; what it showed has stayed."""
        page = self.live(self.open("/jobs"))
        row = page.locator("tbody tr[data-row]").first
        row.wait_for()
        shown = row.get_attribute("data-key")
        self.api.kill()
        page.get_by_text("The server does not answer.").wait_for()
        assert row.get_attribute("data-key") == shown, "the page lost what it showed"
        self.api.start()
        began = time.monotonic()
        self.live(page)
        assert row.get_attribute("data-key") == shown, "the page lost what it showed"
        page.close()
        return time.monotonic() - began

    def run(self) -> None:
        large = f"/jobs/{self.seeded.large_id}"
        last = f'[data-node="n{self.options.graph_nodes - 1}"]'
        self.note("first paint of the list of jobs", "ms", 500, self.rounds(self.first_paint))
        self.note("list of jobs drawn", "ms", 1000, self.rounds(self.loading("/jobs", "tbody tr[data-row]")))
        self.note(
            "job with the fan-out: graph drawn", "ms", 1000, self.rounds(self.loading(large, "[data-node=split]"))
        )
        fan_out = self.loading(f"{large}?tab=fan-out", ".squares canvas")
        self.note("job with the fan-out: all squares drawn", "ms", 1000, self.rounds(fan_out))
        self.note("job with the fan-out: JSON", "kB", 300, [self.json_bytes("", "[data-node=split]")])
        squares = self.json_bytes("?tab=fan-out", ".squares canvas")
        self.note("job with the fan-out: JSON with all squares", "kB", 300, [squares])
        graph = self.loading(f"/jobs/{self.seeded.graph_id}", last)
        self.note(f"graph of {self.options.graph_nodes} nodes drawn", "ms", 1000, self.rounds(graph))
        self.note("first line of the log, from its end", "ms", 300, self.rounds(self.log_jump))
        self.note("list filtered by a status", "ms", 150, self.rounds(self.list_filter))
        self.note("status committed to pixel", "ms", 1000, self.status_to_pixel())
        self.note(f"heap after {self.options.events:,} live events", "MB", 150, [self.heap_after_events()])
        self.note("eight tabs at once, the slowest", "s", 10, [self.eight_tabs()])
        self.note("live again after the API was killed and came back", "s", 15, [self.recovery()])


class ApiProcess:
    """`rmhdag api` on a port that stays the same when it is killed and started again."""

    def __init__(self, dsn: str, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")}
        self._environment |= {"RMHDAG_DATABASE_URL": dsn, "RMHDAG_HOME": str(folder / "home")}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "rmhdag.cli", "api", "--port", str(self.port)]
        with (self._folder / "api.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError((self._folder / "api.log").read_text())
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False, verify=False).is_success
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)


@contextmanager
def data_of(options: argparse.Namespace) -> Iterator[tuple[str, Seeded]]:
    """A database with the data, for this run only, and what is in it."""
    sizes = Sizes(options.jobs, options.items, options.graph_nodes, options.lines, options.events)
    server = EmbeddedPostgres(options.data, durable=False) if options.data else EmbeddedPostgres.temporary()
    with server:
        record = server.folder / "seeded.json"
        if not record.exists() or Sizes(**json.loads(record.read_text())) != sizes:
            began = time.monotonic()
            server.drop_database("seeded")
            dsn = server.create_database("seeded")
            apply(dsn)
            with connect(dsn, "bench", autocommit=True) as conn:
                enter_schema(conn, "dagapp")
                seed(conn, sizes)
            record.write_text(json.dumps(asdict(sizes)))
            if not options.json:
                print(f"seeded in {time.monotonic() - began:.1f} s", flush=True)
        server.drop_database("web")
        yield server.create_database("web", template="seeded"), Seeded.ids()


def measure(options: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="rmhdag-bench-ui-") as name, data_of(options) as (dsn, seeded):
        if options.seed_only:
            return []
        with connect(dsn, "bench", autocommit=True) as conn:
            enter_schema(conn, "dagapp")
            api = ApiProcess(dsn, Path(name))
            try:
                api.start()
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
                    bench = Bench(browser, conn, api, seeded, options)
                    bench.run()
                    browser.close()
            finally:
                api.kill()
    return bench.figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help=f"{LARGE.jobs:,}")
    parser.add_argument("--items", type=int, help=f"of the fan-out: {LARGE.items:,}")
    parser.add_argument("--graph-nodes", type=int, help=f"{LARGE.graph_nodes:,}")
    parser.add_argument("--lines", type=int, help=f"of the log: {LARGE.lines:,}")
    parser.add_argument("--events", type=int, help=f"{LARGE.events:,}: ten a second for an hour")
    parser.add_argument("--rounds", type=int, help="5; the median counts")
    parser.add_argument("--small", action="store_true", help="little data and one round: does every figure come out?")
    parser.add_argument("--data", type=Path, help="a folder that keeps the seeded data for the next run")
    parser.add_argument("--seed-only", action="store_true", help="measure nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = SMALL if options.small else LARGE
    for name, size in {**asdict(sizes), "rounds": 1 if options.small else 5}.items():
        if getattr(options, name) is None:
            setattr(options, name, size)
    figures = measure(options)
    if options.json:
        facts: list[dict[str, Any]] = [figure._asdict() | {"is_met": figure.is_met} for figure in figures]
        print(json.dumps(facts))
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

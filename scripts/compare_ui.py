"""How much a browser loads, and for how long, until a list of runs can be used: ours, Airflow, Prefect and Dagster.

Each product is the newest that can be installed, with an empty database of its own. Every page is opened by a browser
that has nothing in its cache. A page can be used when it says that there are no runs yet: its program, its navigation
and the answer of its server are there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_ui import CHROMIUM, FIRST_PAINT, OPTIONS, ApiProcess

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.migration import apply

PATIENCE_SECONDS = 60
# What a page loads soon after it can be used belongs to it.
AFTERWARDS_MS = 2_000
# One of these texts is in the page, and a frame is drawn with it: milliseconds since the navigation began.
SINCE_NAVIGATION = """([texts, patience]) => new Promise((done) => {
    const look = () => {
        if (texts.some((text) => document.body?.innerText.includes(text)))
            requestAnimationFrame(() => done(performance.now()));
        else if (performance.now() > patience) done(null);
        else requestAnimationFrame(look);
    };
    look();
})"""


class Product(NamedTuple):
    """Another product: what to install, what to start, and which texts its list of runs shows when it is empty."""

    name: str
    packages: tuple[str, ...]
    preparation: tuple[str, ...]
    command: tuple[str, ...]
    path: str
    texts: tuple[str, ...]
    variables: Mapping[str, str]
    files: Mapping[str, str] = {}
    # Packages of which any version will do: a product may ask for one that is newer than what an index has.
    any_version: tuple[str, ...] = ()


# {folder} is a folder of the product, {port} a free port.
PRODUCTS = (
    Product(
        "Airflow",
        ("apache-airflow",),
        ("airflow", "db", "migrate"),
        ("airflow", "api-server", "--host", "127.0.0.1", "--port", "{port}"),
        "/dag_runs",
        ("No Dag Runs found", "No Dag runs found", "No Runs found"),
        {
            "AIRFLOW_HOME": "{folder}",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        },
    ),
    Product(
        "Prefect",
        ("prefect",),
        (),
        ("prefect", "server", "start", "--host", "127.0.0.1", "--port", "{port}"),
        "/runs",
        ("Run a task or flow to get started", "No flow runs"),
        {
            "PREFECT_HOME": "{folder}",
            "PREFECT_UI_API_URL": "http://127.0.0.1:{port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        },
        any_version=("certifi",),
    ),
    Product(
        "Dagster",
        ("dagster", "dagster-webserver"),
        (),
        ("dagster-webserver", "-h", "127.0.0.1", "-p", "{port}", "-f", "{folder}/definitions.py"),
        "/runs",
        ("No runs found", "No runs to display"),
        {"DAGSTER_HOME": "{folder}", "DO_NOT_TRACK": "1"},
        {
            "dagster.yaml": "telemetry:\n  enabled: false\n",
            "definitions.py": "import dagster\n\ndefinitions = dagster.Definitions()\n",
        },
    ),
)


class Running(NamedTuple):
    name: str
    version: str
    page: str
    texts: tuple[str, ...]
    # A link that opens a session, once; then the cookies of that session.
    sign_in: str | None = None
    session: Any = None


class Visit(NamedTuple):
    first_paint_ms: float
    usable_ms: float
    kilobytes: float
    requests: int


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="visits of each page; the median counts")
    parser.add_argument("--only-rmhdag", action="store_true", help="without the others")
    parser.add_argument("--folder", type=Path, help="where the other products are installed, to be used again")
    parser.add_argument("--pictures", type=Path, help="a folder for a picture of each page")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--in-own-network", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_own_network or options.only_rmhdag:
        report(measure(options), options)
        return 0
    with tempfile.TemporaryDirectory(prefix="rmhdag-compare-ui-") as name:
        folder: Path = (options.folder or Path(name)).resolve()
        for product in PRODUCTS:
            install(product, folder)
        inner = [sys.executable, __file__, *sys.argv[1:], "--folder", str(folder), "--in-own-network"]
        # With the first process of the new group, all others of it end.
        group = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = 'ip link set lo up && exec "$@"'
        return subprocess.run([*group, "sh", "-c", script, "sh", *inner], check=False).returncode


def install(product: Product, folder: Path) -> None:
    place = folder / product.name
    if not (place / "bin" / product.command[0]).exists():
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(place)], check=True)
        command = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(place / "bin" / "python")]
        (place / "any-version.txt").write_text("\n".join(product.any_version))
        subprocess.run([*command, "--overrides", str(place / "any-version.txt"), *product.packages], check=True)


def measure(options: argparse.Namespace) -> dict[str, tuple[str, list[Visit]]]:
    visits: dict[str, tuple[str, list[Visit]]] = {}
    with ExitStack() as stack:
        # All of them run for the whole time, so that no page has a machine for itself.
        pages = [stack.enter_context(running_rmhdag())]
        others = () if options.only_rmhdag else PRODUCTS
        pages += [stack.enter_context(running(product, options.folder)) for product in others]
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        pages = [signed_in(browser, page) for page in pages]
        for page in pages:
            visits[page.name] = (page.version, [])
            visit(browser, page, options.pictures)  # the first visit makes the server load what it needs
        for _ in range(options.rounds):
            for page in pages:
                visits[page.name][1].append(visit(browser, page))
        browser.close()
    return visits


def signed_in(browser: Browser, running: Running) -> Running:
    if running.sign_in is None:
        return running
    context = browser.new_context()
    page = context.new_page()
    page.goto(running.sign_in)
    page.locator("h1").first.wait_for()
    cookies = context.cookies()
    context.close()
    return running._replace(session=cookies)


def visit(browser: Browser, running: Running, pictures: Path | None = None) -> Visit:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    if running.session is not None:
        context.add_cookies(running.session)
    page = context.new_page()
    session = context.new_cdp_session(page)
    sizes: list[float] = []
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(running.page, wait_until="commit")
    usable = page.evaluate(SINCE_NAVIGATION, [list(running.texts), PATIENCE_SECONDS * 1000])
    if usable is None:
        raise RuntimeError(f"{running.name} showed none of {running.texts} but: {page.inner_text('body')[:2_000]}")
    first_paint = page.evaluate(FIRST_PAINT)
    page.wait_for_timeout(AFTERWARDS_MS)
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(pictures / f"{running.name}.png"))
    context.close()
    return Visit(first_paint, usable, sum(sizes) / 1000, len(sizes))


@contextmanager
def running_rmhdag() -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="rmhdag-compare-ui-") as name, EmbeddedPostgres.temporary() as server:
        dsn = server.create_database("web")
        apply(dsn)
        api = ApiProcess(dsn, Path(name))
        try:
            api.start()
            with connect(dsn, "compare", autocommit=True) as conn:
                enter_schema(conn, "dagapp")
                scopes = (Scope.READ, Scope.OPERATE)
                token = api_keys.create_login(conn, "compare", scopes, created_by="compare", namespace="default")
            link = f"{api.url}/login?token={token}"
            yield Running("rmhdag", metadata.version("rmhdag"), f"{api.url}/ui/jobs", ("No jobs yet",), link)
        finally:
            api.kill()


@contextmanager
def running(product: Product, folder: Path) -> Iterator[Running]:
    programs = folder / product.name / "bin"
    with tempfile.TemporaryDirectory(prefix="rmhdag-compare-ui-") as name, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for file, text in product.files.items():
            (Path(name) / file).write_text(text)
        words = {"folder": name, "port": port}
        variables = {key: value.format(**words) for key, value in product.variables.items()}
        environment = os.environ | variables | {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": name}
        with (Path(name) / "log").open("wb") as log:
            if product.preparation:
                subprocess.run(product.preparation, env=environment, cwd=name, stdout=log, stderr=log, check=True)
            command = [word.format(**words) for word in product.command]
            process = subprocess.Popen(
                command, env=environment, cwd=name, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for_answer(f"http://127.0.0.1:{port}/", process, Path(name) / "log")
            question = f"from importlib.metadata import version; print(version({product.packages[0]!r}))"
            answer = subprocess.run([programs / "python", "-c", question], capture_output=True, text=True, check=True)
            version = answer.stdout.strip()
            yield Running(product.name, version, f"http://127.0.0.1:{port}{product.path}", product.texts)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(url, trust_env=False, verify=False)
            return
        except httpx.TransportError:
            time.sleep(0.2)
    raise RuntimeError(log.read_text()[-4_000:])


def report(visits: Mapping[str, tuple[str, list[Visit]]], options: argparse.Namespace) -> None:
    figures = {
        name: {"version": version}
        | {field: statistics.median(getattr(visit, field) for visit in made) for field in Visit._fields}
        for name, (version, made) in visits.items()
    }
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{'list of runs, empty':<22}{'first paint':>13}{'usable':>11}{'bytes':>12}{'requests':>10}")
    for name, row in figures.items():
        facts: dict[str, Any] = row
        print(
            f"{name + ' ' + facts['version']:<22}{facts['first_paint_ms']:>10,.0f} ms{facts['usable_ms']:>8,.0f} ms"
            f"{facts['kilobytes']:>9,.0f} kB{facts['requests']:>10,.0f}"
        )


if __name__ == "__main__":
    sys.exit(main())

"""One platform and one browser for all tests of the web interface: orchestrator, worker, API, Chromium."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import playwright
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from rmhdag.api.oidc import OidcSettings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.migration import apply
from rmhdag.ui.assets import read_bundle
from tests.api.issuing import AUDIENCE, Issuer
from tests.api.running import Running, scratch
from tests.api.serving import served
from tests.conftest import require, required_binaries
from tests.faults.processes import Cluster
from tests.ui.browsing import AXE, CHROMIUM, OPTIONS, Visitor

# On a busy machine everything takes its time; a test that waits for a text sees it as soon as it is there.
PATIENCE_MS = 20_000
EVERYTHING = (Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.ADMIN, Scope.PLATFORM)
Arrive = Callable[..., Visitor]


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    opened = Issuer()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def up(issuer: Issuer) -> Iterator[Running]:
    folder = scratch()
    roles = {"Reader": frozenset({Scope.READ})}
    oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=roles, client_id="web")
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        dsn = server.create_database("web")
        apply(dsn)
        cluster = Cluster(dsn, folder)
        try:
            cluster.orchestrator()
            cluster.worker()
            with served(dsn, orphan_seconds=1.5, oidc=oidc) as api:
                yield Running(api, cluster)
        finally:
            cluster.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    require(Path(CHROMIUM).exists(), "Chromium is not installed")
    driver = Path(playwright.__file__).parent / "driver" / "node"
    require(subprocess.run([driver, "--version"], capture_output=True).returncode == 0, "libatomic1 is not installed")
    require(read_bundle() is not None and AXE.exists(), "the web interface is not built: scripts/build-ui --check")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as browsers:
        opened = browsers.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def arrive(up: Running, browser: Browser) -> Iterator[Arrive]:
    """Open a window, signed in with these scopes; at its end, nothing may have gone wrong in any of them."""
    visitors: list[Visitor] = []

    def open_window(
        *scopes: Scope,
        width: int = 1280,
        theme: str = "light",
        url: str | None = None,
        signed_in: bool = True,
        namespace: str = "default",
        name: str = "ada",
    ) -> Visitor:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if theme == "dark" else "light"
        )
        visitor = Visitor(context, url or up.api.url)
        visitors.append(visitor)
        if signed_in:
            token = api_keys.create_login(
                up.cluster.conn, name, scopes or EVERYTHING, created_by="test", namespace=namespace
            )
            visitor.page.goto(f"{visitor.url}/login?token={token}")
            visitor.page.locator("h1").first.wait_for()
        return visitor

    yield open_window
    for visitor in visitors:
        visitor.context.close()
    problems = [problem for visitor in visitors for problem in visitor.problems]
    assert not problems, "\n".join(problems)


@pytest.fixture
def visitor(arrive: Arrive) -> Visitor:
    return arrive()

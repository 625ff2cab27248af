"""The page for partners is true: its commands are run in order, exactly as printed, against a real gateway."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.machine.python import python_command
from rmhdag.models.scopes import Scope
from tests.cli.conftest import plain_environment
from tests.cli.running import Up
from tests.conftest import require
from tests.documentation.test_http_api import read_steps
from tests.gateway.serving import gateway_dsn, make_key
from tests.store.waiting import wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "partners.md"


@pytest.fixture
def up() -> Iterator[Up]:
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    running = Up(home)
    yield running
    assert running.end() == 0
    shutil.rmtree(home)


@pytest.fixture
def environment(up: Up) -> Iterator[dict[str, str]]:
    server = EmbeddedPostgres(up.home / "data" / "postgres")
    assert server.attach()
    settings = {
        "RMHDAG_GATEWAY_DATABASE_URL": gateway_dsn(server.dsn()),
        "RMHDAG_GATEWAY_KEY": make_key(server.dsn(), Scope.GATEWAY, name="gateway"),
        "RMHDAG_ORCHESTRATOR_URL": up.facts["url"],
    }
    process = subprocess.Popen(
        python_command("rmhdag.cli", "gateway", "--port", "0"),
        env=plain_environment(up.home) | settings,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "listens on" in line
        url = line.split("listens on ")[1].strip()
        wait_until(lambda: is_ready(url), 60)
        yield {"GATEWAY": url, "KEY": make_key(server.dsn(), Scope.B2B, name="acme")}
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stderr.close()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_the_commands_run_as_they_are_printed(up: Up, environment: dict[str, str]) -> None:
    require(shutil.which("curl") is not None, "curl is not installed")
    steps = read_steps(PAGE.read_text(encoding="utf-8"))
    script = "".join(f"{{\n{step.commands}}} > step-{number}\n" for number, step in enumerate(steps))
    programs = {"PATH": f"{Path(sys.executable).parent}:{plain_environment(up.home)['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=up.home,
        env=plain_environment(up.home) | programs | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    outputs = [up.home / f"step-{number}" for number in range(len(steps))]
    ran = [path for path in outputs if path.exists()]
    assert done.returncode == 0, f"line {steps[len(ran) - 1].line}: {done.stderr}{ran[-1].read_text()}"
    for step, path in zip(steps, ran, strict=True):
        if step.printed is not None:
            assert path.read_text(encoding="utf-8") == step.printed, f"line {step.line}"

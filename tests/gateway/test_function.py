"""The gateway as an Azure Function, called as its host calls it; and what the gateway loads, and how fast."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import azure.functions as func
import httpx
import pytest

from rmhdag.machine.python import python_command
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere
from tests.gateway.orders import ORDER
from tests.gateway.serving import gateway_dsn, make_key
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "function"
NOT_LOADED = (
    "sqlalchemy alembic fastapi uvicorn typer structlog numpy rasterio shapely pystac osgeo jinja2 ruamel cryptography "
    "rmhdag.store rmhdag.services rmhdag.orchestrator rmhdag.worker rmhdag.api rmhdag.handlers rmhdag.cli rmhdag.views"
).split()
MOST_SECONDS = 1.5
MOST_MEGABYTES = 60

Send = Callable[..., func.HttpResponse]


def load(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> ModuleType:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("function_app", FOLDER / "function_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch, migrated_database: str, api: ServedHere) -> Iterator[Send]:
    """One event loop for all calls, as the host has it."""
    module = load(
        monkeypatch,
        {
            "RMHDAG_GATEWAY_DATABASE_URL": gateway_dsn(migrated_database),
            "RMHDAG_GATEWAY_KEY": make_key(migrated_database, Scope.GATEWAY, name="gateway"),
            "ORCHESTRATOR_URL": api.url,
        },
    )
    (function,) = module.app.get_functions()
    call = function.get_user_function()
    loop = asyncio.new_event_loop()

    def send_one(method: str, path: str, key: str | None = None, body: Any = None, **headers: str) -> func.HttpResponse:
        heads = {"x-forwarded-for": "1.2.3.4:55", **headers}
        if key is not None:
            heads["Authorization"] = f"Bearer {key}"
        request = func.HttpRequest(
            method,
            f"https://gateway.example.org{path}",
            headers=heads,
            params={},
            route_params={"route": path.lstrip("/")},
            body=b"" if body is None else json.dumps(body).encode(),
        )
        answer: func.HttpResponse = loop.run_until_complete(call(request, None))
        return answer

    yield send_one
    # No host does this: it ends with its process. Here the loop ends before.
    loop.run_until_complete(module.app.middleware.notify_shutdown())
    module.app.startup_task_done = False
    loop.close()


def test_the_binding_takes_every_path_and_leaves_keys_to_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(monkeypatch, {})
    (function,) = module.app.get_functions()
    trigger = next(binding for binding in json.loads(str(function))["bindings"] if binding["type"] == "httpTrigger")
    assert (trigger["route"], trigger["authLevel"]) == ("/{*route}", "ANONYMOUS")
    host = json.loads((FOLDER / "host.json").read_text())
    assert host["extensions"]["http"]["routePrefix"] == ""


def test_an_order_through_the_function(send: Send, platform: Platform, migrated_database: str) -> None:
    key = make_key(migrated_database, Scope.B2B, name="acme")
    assert send("GET", "/livez").get_body() == b'{"alive":true}'
    accepted = send("POST", "/platform/submit", key, ORDER)
    assert accepted.status_code == 202, accepted.get_body()
    location = accepted.headers["location"]
    assert json.loads(send("GET", location, key).get_body())["status"] == "pending"
    platform.finish(platform.seat())
    assert json.loads(send("GET", location, key).get_body())["status"] == "completed"
    assert send("GET", "/platform/requests?limit=x", key).status_code == 422
    assert send("GET", location).status_code == 401
    assert send("GET", "/readyz").status_code == 200


def test_no_exception_leaves_the_function(send: Send, platform: Platform, migrated_database: str) -> None:
    key = make_key(migrated_database, Scope.B2B, name="acme")
    location = send("POST", "/platform/submit", key, ORDER).headers["location"]
    assert send("GET", location, key).status_code == 200
    # What no version of ours has written: text where there is an object.
    platform.conn.execute("""UPDATE dag_asset_revisions SET warnings = '"secret detail"'""")
    platform.conn.execute("""UPDATE dag_jobs SET warnings = '"secret detail"'""")
    answer = send("GET", location, key)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert b"secret" not in answer.get_body()


def test_guesses_are_counted_by_the_address_that_the_front_end_adds(send: Send) -> None:
    def guess(address: str) -> int:
        heads = {"x-forwarded-for": f"9.9.9.9, {address}:1234"}
        return int(send("GET", "/platform/me", "rmhdag_0123456789abcdef_" + "a" * 43, **heads).status_code)

    assert {guess("1.1.1.1") for _ in range(40)} == {401, 429}
    assert guess("2.2.2.2") == 401


def test_the_gateway_loads_little_and_starts_soon() -> None:
    program = (
        "import sys, time; began = time.process_time();"
        " import rmhdag.gateway.application, rmhdag.gateway.configuration;"
        " took = time.process_time() - began; import json; print(json.dumps([took, sorted(sys.modules)]))"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(took for took, _ in runs) < MOST_SECONDS
    loaded = [
        name for name in runs[0][1] for forbidden in NOT_LOADED if name == forbidden or name.startswith(f"{forbidden}.")
    ]
    assert loaded == []


def test_the_command_says_what_is_missing_and_serves_liveness(tmp_path: Path) -> None:
    process = subprocess.Popen(
        python_command("rmhdag.cli", "gateway", "--port", "0"),
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RMHDAG_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        while "listens on" not in (line := process.stdout.readline()):
            assert line, lines
            lines.append(line)
        assert any("RMHDAG_GATEWAY_KEY is not set" in line for line in lines)
        url = line.split("listens on ")[1].strip()
        wait_until(lambda: is_answering(f"{url}/livez"))
        assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 503
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


def is_answering(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_the_folder_of_the_function_is_small(tmp_path: Path) -> None:
    built = subprocess.run(
        [ROOT / "scripts" / "build-function", str(tmp_path / "function")], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert int(built.stdout) <= MOST_MEGABYTES
    assert (tmp_path / "function" / "host.json").exists()
    # The host cannot write bytecode into it, and would compile everything at each start.
    packages = tmp_path / "function" / ".python_packages" / "lib" / "site-packages"
    for name in ("rmhdag/gateway/application", "rmhdag/models/assets", "pydantic/main", "azure/functions/http"):
        source = packages / f"{name}.py"
        assert Path(importlib.util.cache_from_source(str(source))).exists(), name
    ignored = (FOLDER / ".funcignore").read_text().split()
    assert not {"__pycache__", "*.pyc"} & set(ignored)

"""Which databases of known vulnerabilities pip-audit can ask from here: the package index's own; if wished, OSV's."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from packaging.version import Version
from pip_audit._dependency_source.interface import PYPI_URL
from pip_audit._service import OsvService, PyPIService, ResolvedDependency, ServiceError, VulnerabilityService
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth

# What pip and uv use if nothing else is configured; pip-audit knows no other.
PYPI = PYPI_URL.removesuffix("/simple/")
# Vulnerable for as long as there are such databases. One that does not know it knows nothing: an index that is a mirror
# may answer for packages and leave out what is known against them, and all of them would count as harmless.
CANARY = ("jinja2", "2.4.1")
PROBE_SECONDS = 5
REQUEST_SECONDS = 10
UV_FILES = ("~/.config/uv/uv.toml", "/etc/uv/uv.toml")


@dataclass(frozen=True)
class Database:
    name: str
    service: VulnerabilityService


class _AtIndex(HTTPAdapter):
    """Sends what is meant for PyPI to the index that is configured here."""

    def __init__(self, index: str) -> None:
        super().__init__()
        parts = urlsplit(index)
        self.base = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=_without_simple(parts.path)))
        self.login = HTTPBasicAuth(unquote(parts.username), unquote(parts.password or "")) if parts.username else None

    def send(self, request: PreparedRequest, **options: Any) -> Response:  # type: ignore[override]
        assert request.url is not None
        request.prepare_url(self.base + request.url.removeprefix(PYPI), None)
        if self.login is not None:
            request.prepare_auth(self.login)
        return super().send(request, **options)


def _without_simple(path: str) -> str:
    return re.sub(r"/simple/?$", "", path).rstrip("/")


def reachable_database(environment: Mapping[str, str], cache: Path) -> tuple[Database | None, str]:
    """The first that knows the canary, and what was wrong with those before it. Takes a few seconds at most."""
    candidates = [Database(f"the index {shown(url)}", _index_service(url, cache)) for url in indexes(environment)]
    # A check talks to nobody but the index that the packages come from, unless that is wished.
    if osv_url := environment.get("PIP_AUDIT_OSV_URL") or (environment.get("AUDIT") and OsvService.DEFAULT_OSV_URL):
        candidates.append(Database(f"OSV at {shown(osv_url)}", OsvService(cache, PROBE_SECONDS, osv_url)))
    answers = [Answer(partial(_knows_canary, database)) for database in candidates]
    reasons: list[str] = []
    end = time.monotonic() + PROBE_SECONDS
    for database, answer in zip(candidates, answers, strict=True):
        reason = answer.within(max(0, end - time.monotonic()), otherwise=f"no answer in {PROBE_SECONDS} s")
        if reason == "":
            database.service.timeout = REQUEST_SECONDS
            return database, "; ".join(reasons)
        reasons.append(f"{database.name}: {reason}")
    return None, "; ".join(reasons)


def _index_service(url: str, cache: Path) -> VulnerabilityService:
    service = PyPIService(cache, PROBE_SECONDS)
    if url.startswith(PYPI + "/"):
        return service
    # Without the cache of pip-audit, which would stand in the place of this adapter.
    service.session.mount(PYPI, _AtIndex(url))
    return service


def _knows_canary(database: Database) -> str:
    """Empty if it does, else why not."""
    dependency, vulnerabilities = database.service.query(ResolvedDependency(CANARY[0], Version(CANARY[1])))
    if dependency.is_skipped():
        return "it does not describe packages"
    return "" if vulnerabilities else "it describes packages without their vulnerabilities"


class Answer:
    """A question that is asked in a thread of its own, because looking up a host's name obeys no time-out."""

    def __init__(self, question: Callable[[], str]) -> None:
        self.question = question
        self.text: str | None = None
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()

    def _ask(self) -> None:
        try:
            self.text = self.question()
        except Exception as error:
            # Whatever a host on the network answers, or that it does not, is no failure of a check.
            cause = error.__cause__ if isinstance(error, ServiceError) and error.__cause__ is not None else error
            self.text = f"{type(cause).__name__}: {str(cause)[:100]}"

    def within(self, seconds: float, otherwise: str) -> str:
        self.thread.join(seconds)
        return otherwise if self.text is None else self.text


def indexes(environment: Mapping[str, str]) -> list[str]:
    """As uv and pip are configured here; PyPI if they are not. Indexes in folders have no database."""
    configured = [environment.get("UV_DEFAULT_INDEX"), environment.get("UV_INDEX_URL")]
    configured += [environment.get("PIP_INDEX_URL"), *_of_pip(environment), *_of_uv(environment)]
    found = [url for url in dict.fromkeys(configured) if url]
    return [url for url in found if url.startswith(("http://", "https://"))] if found else [f"{PYPI}/simple"]


def _of_pip(environment: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=60)
    return re.findall(r"^(?:global|install)\.index-url='(.+)'$", done.stdout, re.MULTILINE)


def _of_uv(environment: Mapping[str, str]) -> list[str]:
    named = environment.get("UV_CONFIG_FILE")
    files = [Path(named)] if named else [Path(name).expanduser() for name in UV_FILES]
    found = []
    for file in files:
        if not file.is_file():
            continue
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
        found += [index["url"] for index in settings.get("index", []) if index.get("default")]
        found += [settings["index-url"]] if "index-url" in settings else []
    return found


def shown(url: str) -> str:
    """Without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))

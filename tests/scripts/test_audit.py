"""scripts/audit against servers that speak as PyPI and OSV do, and against ones that do not."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from scripts.audit import pinned_files

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"id": "PYSEC-2014-8", "aliases": ["CVE-2014-1402"], "details": "temporary files", "fixed_in": ["2.7.2"]}
FOUND = {
    "id": "GHSA-xxxx",
    "aliases": ["CVE-2026-0001"],
    "details": "it lets\neverybody in",
    "fixed_in": ["2.1", "1.5"],
}
NOTHING: dict[str, Any] = {"vulnerabilities": []}
CANARY = {"/pypi/jinja2/2.4.1/json": {"vulnerabilities": [KNOWN]}}


@contextmanager
def database(pages: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Its address, and who asked for what. A page that is None ends the connection."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", "") + self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            page = pages.get(self.path, 404)
            if callable(page):
                page = page(json.loads(body))
            if page is None:
                self.close_connection = True
                return
            self.send_response(page if isinstance(page, int) else 200)
            self.end_headers()
            if not isinstance(page, int):
                self.wfile.write(json.dumps(page).encode())

        do_POST = do_GET  # noqa: N815 (the name that the base class calls)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def audit(folder: Path, *pins: str, index: str = "", osv: str = "", allowed: str = "") -> tuple[int, str]:
    """With nothing of this machine's own configuration, and nowhere to go but to these addresses."""
    nowhere = "127.0.0.1:9"
    (folder / "some.txt").write_text("".join(f"{pin} \\\n    --hash=sha256:{'0' * 64}\n" for pin in pins))
    (folder / "allowed.toml").write_text(allowed)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"http://{index or nowhere}/simple",
        **({"PIP_AUDIT_OSV_URL": f"http://{osv}/v1/query"} if osv else {}),
        "AUDIT_ALLOWED": str(folder / "allowed.toml"),
    }
    command = [sys.executable, "-m", "scripts.audit", str(folder / "some.txt")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_a_vulnerability_fails_with_package_id_and_remedy(tmp_path: Path) -> None:
    pages = {**CANARY, "/pypi/bad/1.4/json": {"vulnerabilities": [FOUND]}, "/pypi/good/2/json": NOTHING}
    with database(pages) as (host, _):
        code, text = audit(tmp_path, "bad==1.4", "good==2", index=host)
    assert code == 1
    assert "bad 1.4 (some.txt): CVE-2026-0001 = GHSA-xxxx, fixed in 1.5, 2.1: it lets everybody in" in text
    assert f"2 of 2 packages audited at the index http://{host}/simple: 1 vulnerabilities" in text


def test_what_does_not_apply_is_allowed_with_a_reason(tmp_path: Path) -> None:
    allowed = '[[allowed]]\npackage = "Bad"\nid = "GHSA-xxxx"\nreason = "nobody calls it"\n'
    pages = {**CANARY, "/pypi/bad/1.4/json": {"vulnerabilities": [FOUND]}}
    with database(pages) as (host, _):
        code, text = audit(tmp_path, "bad==1.4", index=host, allowed=allowed)
        assert (code, "allowed: nobody calls it" in text) == (0, True)
        code, text = audit(tmp_path, "bad==1.4", index=host, allowed=allowed.replace("nobody calls it", " "))
        assert (code, "each [[allowed]] has package, id and reason" in text) == (2, True)
        code, _ = audit(tmp_path, "bad==1.4", index=host, allowed=allowed.replace("Bad", "other"))
        assert code == 1


def test_where_nothing_is_reachable_one_line_says_so(tmp_path: Path) -> None:
    code, text = audit(tmp_path, "bad==1.4")
    assert code == 0
    [line] = text.splitlines()
    assert line.startswith("nothing was audited: no database of vulnerabilities is reachable")


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({}, "it does not describe packages"),
        ({"/pypi/jinja2/2.4.1/json": {"info": {}}}, "it describes packages without their vulnerabilities"),
        ({"/pypi/jinja2/2.4.1/json": NOTHING}, "it describes packages without their vulnerabilities"),
        ({"/pypi/jinja2/2.4.1/json": 503}, "503"),
        ({"/pypi/jinja2/2.4.1/json": ["no", "object"]}, "AttributeError"),
    ],
)
def test_a_mirror_that_knows_of_no_vulnerabilities_is_no_database(
    tmp_path: Path, pages: dict[str, Any], words: str
) -> None:
    """Otherwise everything would seem to be well."""
    with database(pages) as (host, _):
        code, text = audit(tmp_path, "bad==1.4", index=host)
    assert code == 0
    assert "nothing was audited" in text
    assert words in text


def test_osv_is_asked_where_the_index_has_none(tmp_path: Path) -> None:
    affected = [
        {
            "package": {"name": "bad", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.5"}]}],
        }
    ]

    def answer(query: dict[str, Any]) -> dict[str, Any]:
        name = query["package"]["name"]
        known = {"bad": affected, "jinja2": []}.get(name)
        return {} if known is None else {"vulns": [{"id": f"CVE-{name}", "summary": "open", "affected": known}]}

    with database({"/v1/query": answer}) as (host, _):
        code, text = audit(tmp_path, "bad==1.4", "good==2", osv=host)
    assert code == 1
    assert "bad 1.4 (some.txt): CVE-bad, fixed in 1.5: open" in text
    assert "2 of 2 packages audited at OSV" in text


def test_nobody_but_the_index_is_asked_unless_that_is_wished(tmp_path: Path) -> None:
    code, text = audit(tmp_path, "good==2")
    assert code == 0
    assert "no database of vulnerabilities is reachable (the index" in text
    assert "OSV" not in text


def test_a_database_that_goes_away_is_no_failure_unless_it_told_something(tmp_path: Path) -> None:
    pages = {**CANARY, "/pypi/bad/1.4/json": {"vulnerabilities": [FOUND]}, "/pypi/gone/1/json": None}
    with database(pages) as (host, _):
        code, text = audit(tmp_path, "gone==1", "good==2", index=host)
        assert (code, "the audit broke off after 0 of 2 packages" in text) == (0, True)
        code, text = audit(tmp_path, "bad==1.4", "gone==1", index=host)
        assert (code, "the audit broke off after 1 of 2 packages" in text) == (1, True)


def test_packages_that_the_database_does_not_know_are_named(tmp_path: Path) -> None:
    with database({**CANARY, "/pypi/good/2/json": NOTHING}) as (host, _):
        code, text = audit(tmp_path, "good==2", "ours==1", index=host)
    assert code == 0
    assert "does not know them: ours" in text
    assert "1 of 2 packages audited" in text


def test_a_server_that_never_answers_does_not_hold_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        code, text = audit(tmp_path, "bad==1.4", index=f"127.0.0.1:{silent.getsockname()[1]}")
        seconds = time.monotonic() - begin
    assert code == 0
    assert "nothing was audited" in text
    assert seconds < 30, "of which 5 for the probe"


def test_the_login_of_an_index_is_used_and_not_shown(tmp_path: Path) -> None:
    with database({"/team/pypi/jinja2/2.4.1/json": {"vulnerabilities": [KNOWN]}}) as (host, asked):
        code, text = audit(tmp_path, index=f"ada:s%20cret@{host}/team")
    assert code == 0
    assert "0 of 0 packages audited" in text
    assert asked == [f"Basic {base64.b64encode(b'ada:s cret').decode()}/team/pypi/jinja2/2.4.1/json"]
    assert "cret" not in text


def test_all_requirement_files_are_audited() -> None:
    names = {file.name for file in pinned_files()}
    assert names >= {"core.txt", "geo.txt", "dev.txt", "services.txt", "requirements-function.txt", "bootstrap.txt"}
    written = {file for file in ROOT.rglob("requirements*/*.txt") if ".venv" not in file.parts}
    assert {file for file in written if "node_modules" not in file.parts} <= set(pinned_files())

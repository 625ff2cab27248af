"""Pages without a key: what changed, and whether the gateway works; also while nothing else is served."""

from __future__ import annotations

import re
from datetime import date

from rmhdag.gateway.public_pages import CHANGES, status_page
from tests.gateway.serving import Served, served_gateway


def test_pages_need_no_key_and_lead_to_each_other(gateway: Served) -> None:
    client = gateway.with_key(None)
    for path in ("/docs", "/changes", "/health"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert set(re.findall(r'href="(/[a-z]+)"', answer.text)) >= {"/docs", "/changes", "/health"}
        assert "<script" not in answer.text
        assert client.post(path).status_code == 405
    assert "available" in client.get("/health").text
    assert "not available" not in client.get("/health").text
    document = client.get("/openapi.json").json()
    assert document["externalDocs"]["url"] == "/changes"
    assert {"key", "token"} == set(document["components"]["securitySchemes"])


def test_changes_are_listed_from_the_newest() -> None:
    days = [date.fromisoformat(change.day) for change in CHANGES]
    assert days == sorted(days, reverse=True)


def test_the_status_page_says_what_does_not_work_and_not_why(migrated_database: str) -> None:
    with served_gateway(migrated_database, "http://127.0.0.1:9") as running:
        client = running.with_key(None)
        answer = client.get("/health")
        assert answer.status_code == 503
        assert "<td>Orders and commands</td><td>not available</td>" in answer.text
        assert "<td>Status, results and lists</td><td>available</td>" in answer.text
        assert client.get("/changes").status_code == 503
    away = status_page(
        {name: {"passed": False, "problem": "secret"} for name in ("env_vars", "database", "orchestrator")}
    )
    assert "secret" not in away
    assert away.count("not available") == 2

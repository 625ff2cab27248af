"""Pages of other sites: the configured ones may call with a key, and no other site's may."""

from __future__ import annotations

from rmhdag.models.scopes import Scope
from tests.api.serving import served

OURS, OTHER = "https://ops.example.org", "https://elsewhere.example.org"
ASKED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def test_a_configured_site_may_ask_and_call(migrated_database: str) -> None:
    with served(migrated_database, origins=frozenset({OURS})) as api:
        asked = api.anonymous().options("/api/v1/jobs", headers={"Origin": OURS, **ASKED})
        assert (asked.status_code, asked.content) == (204, b"")
        assert asked.headers["access-control-allow-origin"] == OURS
        assert "POST" in asked.headers["access-control-allow-methods"]
        allowed = asked.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "content-type", "idempotency-key"))
        for client, status in ((api.client(Scope.READ), 200), (api.anonymous(), 401)):
            answer = client.get("/api/v1/jobs", headers={"Origin": OURS})
            assert answer.status_code == status, "a key is needed all the same"
            assert answer.headers["access-control-allow-origin"] == OURS
            assert answer.headers["vary"] == "Origin"
            assert "access-control-allow-credentials" not in answer.headers, "a cookie is of no use to it"


def test_other_sites_are_told_nothing(migrated_database: str) -> None:
    for origins in (frozenset[str](), frozenset({OURS})):
        with served(migrated_database, origins=origins) as api:
            asked = api.anonymous().options("/api/v1/jobs", headers={"Origin": OTHER, **ASKED})
            assert asked.status_code == 401
            answer = api.client(Scope.READ).get("/api/v1/jobs", headers={"Origin": OTHER})
            assert answer.status_code == 200
            for one in (asked, answer):
                assert not [name for name in one.headers if name.startswith("access-control")]

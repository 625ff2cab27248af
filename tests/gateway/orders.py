"""Orders as partners place them."""

from __future__ import annotations

from typing import Any

import httpx

from tests.orchestrator.platform import Platform

REFS = {"dataset_id": "0038272", "resource_id": "r1"}
ORDER = {"workflow_id": "make_raster", "platform_id": "ddh", "platform_refs": REFS, "input_params": {"n": 7}}


def order(client: httpx.Client, expect: int = 202, headers: dict[str, str] | None = None, **changes: Any) -> Any:
    answer = client.post("/platform/submit", json={**ORDER, **changes}, headers=headers or {})
    assert answer.status_code == expect, answer.text
    return answer


def count_orders(platform: Platform) -> int:
    row = platform.conn.execute("SELECT count(*) FROM dag_api_requests").fetchone()
    assert row is not None
    return int(row[0])

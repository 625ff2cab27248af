"""The quotas of a namespace with what it uses, counted now where that is cheap."""

from __future__ import annotations

from rmhdag.models.api.quotas import QuotaList, QuotaView
from rmhdag.models.quotas import QUOTAS, Quotas
from rmhdag.store import quotas
from rmhdag.store.connection import Conn


def read_quotas_of(conn: Conn, namespace: str, defaults: Quotas, listeners: int | None = None) -> QuotaList:
    row = quotas.find_namespace(conn, namespace)
    limits = defaults.with_overrides(row.quotas)
    used: dict[str, int | None] = {
        "running_tasks": quotas.count_running(conn, namespace),
        "open_jobs": quotas.count_open_jobs(conn, namespace, limits.open_jobs + 1),
        "stored_bytes": row.used.get("stored_bytes"),
        "upload_bytes": row.used.get("upload_bytes"),
        "workflows": quotas.count_workflows(conn, namespace),
        "handlers": quotas.count_handlers(conn, namespace),
        "keys": quotas.count_keys(conn, namespace),
        "listeners": listeners,
    }
    lines = [
        QuotaView(name=name, what=facts["what"], limit=limit, used=used.get(name), is_own=name in row.quotas)
        for (name, facts), limit in zip(QUOTAS.items(), limits.as_json().values(), strict=True)
    ]
    return QuotaList(namespace=namespace, counted_at=row.counted_at, quotas=lines)

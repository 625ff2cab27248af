"""Count what each namespace stores, for its quotas. All jobs and stored values are looked at, so it is done rarely."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import quotas


def run_once(context: Context) -> int:
    """Nothing is left to do. One orchestrator counts for all of them."""
    if not quotas.is_counting_due(context.conn, context.settings.usage_seconds / 2):
        return 0
    found = quotas.count_stored(context.conn)
    for one in found:
        used = {"open_jobs": one.open_jobs, "stored_bytes": one.stored_bytes, "upload_bytes": one.upload_bytes}
        quotas.note_used(context.conn, one.namespace, used)
    return 0

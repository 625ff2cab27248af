"""Count what each namespace stores, for its quotas. All jobs and stored values are looked at, so it is done rarely."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import quotas


def run_once(context: Context) -> int:
    """Nothing is left to do. One orchestrator counts for all of them."""
    if not quotas.is_counting_due(context.conn, context.settings.usage_seconds / 2):
        return 0
    usages = quotas.count_stored(context.conn)
    for usage in usages:
        used = {"open_jobs": usage.open_jobs, "stored_bytes": usage.stored_bytes, "upload_bytes": usage.upload_bytes}
        quotas.note_used(context.conn, usage.namespace, used)
    return 0

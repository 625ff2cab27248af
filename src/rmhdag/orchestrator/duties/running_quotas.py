"""Have claims count the running tasks of namespaces that are near their quota, and of no others.

While there is one namespace, all slots are its own. Among several, none may hold all slots of a queue: whoever comes
next finds one. A small limit is always counted; a large one from its half on, so that a burst is seen in time.
"""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import quotas

COUNTED_BELOW = 64


def run_once(context: Context) -> int:
    """How many namespaces changed."""
    quotas.note_namespaces(context.conn)
    found = quotas.running_tasks(context.conn)
    is_shared = len([one for one in found if one.is_in_use]) > 1
    changed = 0
    for one in found:
        limits = context.settings.quotas.with_overrides(one.quotas)
        share = limits.running_share if is_shared else 100
        limit = min(limits.running_tasks, one.slots * share // 100 if share < 100 else limits.running_tasks)
        is_watched = limit < COUNTED_BELOW or one.held * 2 >= limit
        now = (is_watched, limits.running_tasks, share)
        if now != (one.is_watched, one.running_tasks, one.running_share):
            quotas.watch_namespace(
                context.conn,
                one.namespace,
                is_watched=is_watched,
                running_tasks=limits.running_tasks,
                running_share=share,
            )
            changed += 1
    return changed

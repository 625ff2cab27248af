"""Have claims count the running tasks of namespaces that are near their quota, and of no others.

While there is one namespace, all slots are its own. Among several, none may hold all slots of a queue: the
next namespace finds one. A small limit is always counted; a large one from half of it on, so that a burst is noticed.
"""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import quotas

COUNTED_BELOW = 64


def run_once(context: Context) -> int:
    """How many namespaces changed."""
    quotas.note_namespaces(context.conn)
    namespaces = quotas.running_tasks(context.conn)
    is_shared = len([namespace for namespace in namespaces if namespace.is_in_use]) > 1
    changed = 0
    for namespace in namespaces:
        limits = context.settings.quotas.with_overrides(namespace.quotas)
        share = limits.running_share if is_shared else 100
        is_watched = is_near(limits.running_tasks, namespace.held)
        if share < 100:
            is_watched = is_watched or is_near(namespace.slots * share // 100, namespace.occupied)
        now = (is_watched, limits.running_tasks, share)
        if now != (namespace.is_watched, namespace.running_tasks, namespace.running_share):
            quotas.watch_namespace(
                context.conn,
                namespace.namespace,
                is_watched=is_watched,
                running_tasks=limits.running_tasks,
                running_share=share,
            )
            changed += 1
    return changed


def is_near(limit: int, used: int) -> bool:
    return limit < COUNTED_BELOW or used * 2 >= limit

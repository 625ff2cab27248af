"""An aggregate in memory against the rows: the counters, and everything that a reload would give instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rmhdag.engine.effects import AggregationRequested, ApprovalRequested, ContinueLater
from rmhdag.engine.inputs import SetWindow
from rmhdag.engine.loading import resume
from rmhdag.engine.run import JobRun
from rmhdag.engine.slots import FAILED, PENDING, STATUSES, TERMINAL, FanOutState, Slot
from rmhdag.lab.simulation import reads
from rmhdag.lab.simulation.rows import JobRow
from rmhdag.lab.simulation.store import Store
from rmhdag.lab.simulation.violation import Violation
from rmhdag.lab.simulation.workloads import QUEUES
from rmhdag.models.states import NodeStatus

# A reload asks for these again, and nothing comes of it that is there already.
KNOWN = ContinueLater | AggregationRequested | ApprovalRequested


def compare(store: Store, run: JobRun, job: JobRow, *, reload: bool, windows: dict[str, int]) -> None:
    """Right after a commit of this very aggregate."""
    _compare_counters(store, run, job)
    if not reload:
        return
    loaded = reads.load(store, run.plan, job)
    for queue, limit in windows.items():
        loaded.apply(SetWindow(queue, limit), run.now)
    owed = [effect for effect in resume(loaded, run.now) if not isinstance(effect, KNOWN)]
    if owed:
        raise Violation("nothing is forgotten", f"{job.job_id}: a reload would also do {owed}")
    for name, cached, fresh in differences(run, loaded):
        raise Violation("I8 memory equals rows", f"{job.job_id} {name}: {cached} in memory, {fresh} from the rows")


def differences(run: JobRun, loaded: JobRun) -> list[tuple[str, Any, Any]]:
    """What an aggregate that lived through its inputs knows otherwise than one that was loaded: name, old, new."""
    return [fact for fact in _facts(run, loaded) if fact[1] != fact[2]]


def _compare_counters(store: Store, run: JobRun, job: JobRow) -> None:
    rows = Counter(row.status for row in store.nodes[job.job_id].values())
    # Children that are not expanded yet have no rows.
    unborn = sum(
        slot.fan.total - slot.fan.expanded
        for slot in run.slots
        if slot.fan is not None and STATUSES[slot.status] is NodeStatus.RUNNING and not _gave_up(run, slot)
    )
    rows[NodeStatus.PENDING] += unborn
    if not store.nodes[job.job_id]:
        return  # cancelled before it started
    counted = {status: run.counts[code] for code, status in enumerate(STATUSES)}
    if any(counted[status] != rows[status] for status in STATUSES):
        raise Violation("I8 counters equal rows", f"{job.job_id}: {counted} in memory, {dict(rows)} in rows")
    if job.status is not run.status or job.ending is not run.ending:
        raise Violation("I8 memory equals rows", f"{job.job_id} is {run.status} in memory, {job.status} in its row")


def _gave_up(run: JobRun, slot: Slot) -> bool:
    """The last chunk of a cancellation has taken the unborn children out of the counts."""
    return run.ending is not None and slot.fan is not None and slot.fan.cancel_cursor is None


def _targets(slot: Slot) -> Any:
    """Branches with the same targets are the same to every edge."""
    return None if slot.taken is None else slot.plan.definition.branches[slot.taken].next


def _facts(run: JobRun, loaded: JobRun) -> list[tuple[str, Any, Any]]:
    facts: list[tuple[str, Any, Any]] = [
        (name, getattr(run, name), getattr(loaded, name))
        for name in ("status", "ending", "error_message", "next_seq", "open_nodes", "in_flight", "outputs")
    ]
    facts.append(("warnings", _warnings(run), _warnings(loaded)))
    # While children are cancelled in chunks, memory counts those that were never born a little longer.
    first = PENDING + 1 if run.ending is not None else PENDING
    facts.append(("counts", run.counts[first:], loaded.counts[first:]))
    facts += [(f"lane {queue}", run.lane(queue).unclaimed, loaded.lane(queue).unclaimed) for queue in QUEUES]
    for mine, fresh in zip(run.slots, loaded.slots, strict=True):
        facts += [
            (f"{mine.node_id}.{name}", getattr(mine, name), getattr(fresh, name))
            for name in ("status", "attempt", "lease_losses", "next_attempt_at", "deadline_at")
        ]
        facts.append((f"{mine.node_id}.taken", _targets(mine), _targets(fresh)))
        if run.ending is None:
            facts += [
                (f"{mine.node_id}.{name}", getattr(mine, name), getattr(fresh, name))
                for name in ("all_waiting", "all_live", "any_waiting", "any_live")
            ]
        if (mine.fan is None) != (fresh.fan is None) and not TERMINAL[mine.status]:
            facts.append((f"{mine.node_id}.fan", mine.fan is not None, fresh.fan is not None))
        if mine.fan is not None and fresh.fan is not None and run.status == "running":
            facts += [
                (f"{mine.node_id}.fan.{name}", getattr(mine.fan, name), getattr(fresh.fan, name))
                for name in ("statuses", "expanded", "in_flight", "total")
            ]
            facts.append((f"{mine.node_id}.fan.counts", mine.fan.counts[first:], fresh.fan.counts[first:]))
            facts.append(
                (f"{mine.node_id}.fan.attempts", _attempts_of_failed(mine.fan), _attempts_of_failed(fresh.fan))
            )
            if run.ending is None:
                facts.append((f"{mine.node_id}.fan.active", _under_way(mine.fan), _under_way(fresh.fan)))
                facts.append((f"{mine.node_id}.fan.due", _names(mine.fan.due), _names(fresh.fan.due)))
    return facts


def _warnings(run: JobRun) -> list[dict[str, Any]]:
    return [] if run.warnings is None else run.warnings.as_json()


def _attempts_of_failed(fan: FanOutState) -> list[int]:
    return [attempt for status, attempt in zip(fan.statuses, fan.attempts, strict=True) if status == FAILED]


def _under_way(fan: FanOutState) -> list[tuple[Any, ...]]:
    columns = ("node_id", "status", "attempt", "lease_losses", "next_attempt_at", "deadline_at")
    return [tuple(getattr(fan.active[index], name) for name in columns) for index in sorted(fan.active)]


def _names(slots: Iterable[Slot]) -> list[str]:
    """In any order: memory has the order in which they became due, rows do not."""
    return sorted(slot.node_id for slot in slots)

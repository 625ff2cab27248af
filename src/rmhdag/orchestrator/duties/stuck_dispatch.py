"""A node that is dispatched while its queue row is gone gets a failed attempt, and so its next one."""

from __future__ import annotations

from rmhdag.engine.inputs import TaskReported
from rmhdag.models.events import ErrorKind
from rmhdag.orchestrator.context import Context
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.store import upkeep

MESSAGE = "its row in the queue was lost, so no worker would ever have run it"


def run_once(context: Context) -> int:
    stuck = upkeep.tasks_without_a_row(context.conn, context.me, context.settings.stuck_dispatch_seconds)
    context.advance.give(
        [
            LocalInput(
                job_id,
                TaskReported(
                    node_id, attempt, task_id, 0, False, error_message=MESSAGE, error_kind=ErrorKind.WORKER_DIED
                ),
            )
            for job_id, node_id, attempt, task_id in stuck
        ]
    )
    return len(stuck)

"""The behaviour of each type of node in a job: the only table of all types.

A new type is a row here and the functions that it names. `Plan` gives each node its row, so no rule tests a type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmhdag.engine import branches, fan_outs, tasks, waiting
from rmhdag.engine.reasons import Reason
from rmhdag.engine.settling import complete_node
from rmhdag.engine.slots import Slot
from rmhdag.models.states import NodeType
from rmhdag.workflow.expressions import CompiledTemplate

if TYPE_CHECKING:
    from rmhdag.engine.plan import MakeTask, NodePlan
    from rmhdag.engine.run import JobRun

Rule = Callable[["JobRun", Slot], None]
Compile = Callable[["NodePlan", Any, "MakeTask"], list[CompiledTemplate | None]]
Restore = Callable[["JobRun", Slot, Any], None]
Explain = Callable[["JobRun", Slot], Reason]


def _compile_nothing(node: NodePlan, definition: Any, make_task: MakeTask) -> list[CompiledTemplate | None]:
    return []


def _pass(run: JobRun, slot: Slot) -> None:
    complete_node(run, slot, None, {})


def _restore_nothing(run: JobRun, slot: Slot, output: Any) -> None:
    """Nothing to restore: the status is enough."""


def _owe_nothing(run: JobRun, slot: Slot) -> None:
    """Nothing to resume: a worker or a command will report."""


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    """`activate` begins it once its dependencies are met. `compile` prepares the node of a plan and returns its
    templates. `retry` and `time_out` are called when that moment has come.

    After loading, `restore` sets values that do not follow from the row and the stored output, and `resume` requests
    unfinished work again. A node that is ready or running without a worker explains what it waits for. A node that
    `waits_for_others` may wait forever: its job is not reported as stalled.
    """

    activate: Rule = _pass
    compile: Compile = _compile_nothing
    retry: Rule = tasks.retry_task
    time_out: Rule = tasks.time_out_task
    restore: Restore = _restore_nothing
    resume: Rule = _owe_nothing
    explain_ready: Explain | None = None
    explain_running: Explain | None = None
    waits_for_others: bool = False


BEHAVIOURS = {
    NodeType.START: NodeBehaviour(),
    NodeType.END: NodeBehaviour(),
    NodeType.TASK: NodeBehaviour(activate=tasks.prepare_task, compile=tasks.compile_task),
    NodeType.CONDITIONAL: NodeBehaviour(
        activate=branches.choose_branch, compile=branches.compile_conditional, restore=branches.restore_branch
    ),
    NodeType.FAN_OUT: NodeBehaviour(
        activate=fan_outs.begin_fan_out, compile=fan_outs.compile_fan_out, explain_running=fan_outs.explain_fan_out
    ),
    NodeType.FAN_IN: NodeBehaviour(
        activate=fan_outs.begin_fan_in, resume=fan_outs.resume_fan_in, explain_ready=fan_outs.explain_fan_in
    ),
    NodeType.APPROVAL: NodeBehaviour(
        activate=waiting.request_approval,
        compile=waiting.compile_approval,
        time_out=waiting.wait_timed_out,
        resume=waiting.ask_again,
        explain_running=waiting.explain_approval,
        waits_for_others=True,
    ),
    NodeType.WORKFLOW: NodeBehaviour(
        activate=waiting.request_child_job,
        compile=waiting.compile_child_job,
        retry=waiting.request_child_job,
        time_out=waiting.wait_timed_out,
        restore=waiting.restore_child_job,
        explain_running=waiting.explain_child_job,
        waits_for_others=True,
    ),
}

"""Rules between tasks and handlers: the handler exists, accepts the parameters, and has the outputs that are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmhdag.workflow.former_names import FORMER_HANDLERS, former_names_of
from rmhdag.workflow.handler_schema import find_missing_step, find_param_faults
from rmhdag.workflow.known_handlers import HandlerEntry, KnownHandlers
from rmhdag.workflow.parameters import Fault
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path

if TYPE_CHECKING:
    from rmhdag.workflow.definition import WorkflowDefinition

_NOT_KNOWN = (
    "Check its name. For a handler of your own, name its module in RMHDAG_HANDLERS; "
    "`validate --live` also knows the handlers of running workers"
)


def check_handler(handlers: KnownHandlers, handler: str, task: Mapping[str, Any], path: Path, report: Report) -> bool:
    """Report an unknown handler, or what is wrong with its parameters; false if there is no such handler."""
    entry = handlers.find(handler)
    if entry is None:
        report.add((*path, "handler"), "unknown-handler", *missing_handler(handlers, handler))
        return False
    params = task.get("params")
    if params is None or isinstance(params, dict):
        for fault in _find_faults(entry, handler, params or {}):
            where = (*path, "params", *fault.path)
            if fault.code == "missing-parameter":
                owner = where[:-1] if params is not None else path
                report.add_at(report.source_map.key_at(owner), where, fault.code, fault.message, fault.remedy)
            elif fault.code == "unknown-parameter":
                report.add_key(where, fault.code, fault.message, fault.remedy)
            else:
                report.add(where, fault.code, fault.message, fault.remedy)
    return True


def _find_faults(entry: HandlerEntry, called: str, params: dict[str, Any]) -> list[Fault]:
    """Names of the original system have prepared remedies."""
    former = former_names_of(entry.name).params
    faults = find_param_faults(called, entry.params_schema, params)
    return [
        fault._replace(remedy=former[name])
        if fault.code == "unknown-parameter" and len(fault.path) == 1 and (name := str(fault.path[0])) in former
        else fault
        for fault in faults
    ]


def missing_handler(handlers: KnownHandlers, handler: str) -> tuple[str, str]:
    """Message and remedy."""
    if handler in handlers.reserved:
        return (
            f"there is no handler `{handler}` yet: rmhdag keeps this name for a later version",
            "Write a handler of your own under another name, or leave the node out",
        )
    remedy = FORMER_HANDLERS.get(handler) or did_you_mean(handler, handlers.names(), _NOT_KNOWN)
    return f"there is no handler `{shorten(handler)}`", remedy


def find_output_fault(
    handlers: KnownHandlers | None, node_name: str, handler: Any, steps: tuple[str | int, ...]
) -> tuple[str, str, str] | None:
    """Check that the handler's output has the path `steps`. Former names are found even if it declares no output."""
    entry = handlers.find(handler) if handlers is not None and isinstance(handler, str) else None
    if entry is None:
        return None
    former = former_names_of(entry.name).output.get(str(steps[0])) if steps else None
    declared = entry.output_schema.get("properties")
    if former is not None and not (isinstance(declared, dict) and steps[0] in declared):
        return "never-resolves", f"the output of `{node_name}` has no `{steps[0]}`", former
    missing = find_missing_step(entry.output_schema, steps) if entry.output_schema else None
    if missing is None:
        return None
    place, others = missing
    within = f"`{'.'.join(map(str, steps[:place]))}` in " if place else ""
    return (
        "never-resolves",
        f"{within}the output of `{node_name}` has no `{shorten(str(steps[place]))}`",
        did_you_mean(str(steps[place]), others) if others else "Read another value",
    )


def find_unfit_tasks(definition: WorkflowDefinition, handlers: KnownHandlers) -> list[str]:
    """Why a stored workflow does not fit the current handlers, in sentences. Unknown ones may be registered later."""
    sentences: list[str] = []
    for name, node in definition.nodes.items():
        task = getattr(node, "task", None)
        if task is None or getattr(node, "template_of", None) is not None:
            continue
        entry = handlers.find(task.handler)
        if entry is None:
            if task.handler in handlers.reserved:
                sentences.append(f"node `{name}`: {'. '.join(missing_handler(handlers, task.handler))}")
            continue
        faults = _find_faults(entry, task.handler, task.params)
        sentences += [f"node `{name}`: {fault.message}. {fault.remedy}" for fault in faults]
    return sentences

"""Rules about what tasks ask of their handlers: that these exist, take the parameters, and have the outputs read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rmhdag.workflow.catalogue import HandlerCatalogue, HandlerEntry
from rmhdag.workflow.former_names import FORMER_HANDLERS, former_names_of
from rmhdag.workflow.handler_schema import find_missing_step, find_param_faults
from rmhdag.workflow.parameters import Fault
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path

if TYPE_CHECKING:
    from rmhdag.workflow.definition import WorkflowDefinition

_NOT_KNOWN = "Check its name; handlers of your own are known by RMHDAG_HANDLERS, or once a worker has them"


def check_handler(known: HandlerCatalogue, handler: str, task: Mapping[str, Any], path: Path, report: Report) -> bool:
    """Report an unknown handler, or what is wrong with its parameters; false if there is no such handler."""
    entry = known.find(handler)
    if entry is None:
        report.add((*path, "handler"), "unknown-handler", *missing_handler(known, handler))
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
    """Names of the original system get the remedy that somebody has thought out for them."""
    former = former_names_of(entry.name).params
    faults = find_param_faults(called, entry.params_schema, params)
    return [
        fault._replace(remedy=former[name])
        if fault.code == "unknown-parameter" and len(fault.path) == 1 and (name := str(fault.path[0])) in former
        else fault
        for fault in faults
    ]


def missing_handler(known: HandlerCatalogue, handler: str) -> tuple[str, str]:
    """Message and remedy."""
    if handler in known.reserved:
        return (
            f"there is no handler `{handler}` yet: rmhdag keeps this name for a later version",
            "Write a handler of your own under another name, or leave the node out",
        )
    remedy = FORMER_HANDLERS.get(handler) or did_you_mean(handler, known.names(), _NOT_KNOWN)
    return f"there is no handler `{shorten(handler)}`", remedy


def find_output_fault(
    known: HandlerCatalogue | None, node_name: str, handler: Any, steps: tuple[str | int, ...]
) -> tuple[str, str, str] | None:
    """Whether the handler has what `steps` lead to. Former names are known even where it declares no output."""
    entry = known.find(handler) if known is not None and isinstance(handler, str) else None
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


def find_unfit_tasks(definition: WorkflowDefinition, known: HandlerCatalogue) -> list[str]:
    """Why a stored workflow does not fit the handlers of today, in sentences. Handlers that are not known may come."""
    sentences: list[str] = []
    for name, node in definition.nodes.items():
        task = getattr(node, "task", None)
        if task is None or getattr(node, "template_of", None) is not None:
            continue
        entry = known.find(task.handler)
        if entry is None:
            if task.handler in known.reserved:
                sentences.append(f"node `{name}`: {'. '.join(missing_handler(known, task.handler))}")
            continue
        faults = _find_faults(entry, task.handler, task.params)
        sentences += [f"node `{name}`: {fault.message}. {fault.remedy}" for fault in faults]
    return sentences

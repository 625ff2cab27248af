"""Checks a workflow from text or JSON against all rules.

A valid workflow needs none of the models, so `rmhdag validate` of a valid file never imports Pydantic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from rmhdag.models.json_values import RESERVED_KEY, NotJsonError, check_json
from rmhdag.models.limits import MAX_NODES
from rmhdag.workflow.check_rules import check_checks
from rmhdag.workflow.graph_rules import check_graph
from rmhdag.workflow.inputs import check_inputs
from rmhdag.workflow.known_handlers import KnownHandlers
from rmhdag.workflow.node_rules import NodeRules
from rmhdag.workflow.normalise import fold
from rmhdag.workflow.problems import Problem, few_guesses
from rmhdag.workflow.raw_graph import RawGraph
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path, SourceMap
from rmhdag.workflow.structure import describe
from rmhdag.workflow.structure_faults import report_structure
from rmhdag.workflow.template_rules import TemplateRules
from rmhdag.workflow.yaml_reader import MAX_DEPTH, MAX_FILE_BYTES, read_yaml


class CheckedWorkflow(NamedTuple):
    """A workflow as written, without problems: the source of its definition."""

    data: dict[str, Any]
    graph: RawGraph
    rules: NodeRules
    source_map: SourceMap

    @property
    def workflow_id(self) -> str:
        return str(self.data["workflow_id"])

    @property
    def version(self) -> int:
        return int(self.data.get("version", 1))

    @property
    def node_count(self) -> int:
        return len(self.graph.nodes)

    def folded(self) -> dict[str, Any]:
        """The source of the definition."""
        return fold(self.data, self.graph, self.rules)


class Surroundings(NamedTuple):
    """What the workflow is checked against; None means unknown, and is not checked."""

    handlers: KnownHandlers | None = None
    queues: Collection[str] | None = None
    env_names: Collection[str] = ()
    fallback_queue: str | None = None


def find_problems(
    source: str | bytes | dict[str, Any], around: Surroundings, *, file: str = "workflow"
) -> tuple[CheckedWorkflow | None, list[Problem]]:
    """The workflow, or None and its problems."""
    with few_guesses():
        return _find_problems(source, around, file)


def _find_problems(
    source: str | bytes | dict[str, Any], around: Surroundings, file: str
) -> tuple[CheckedWorkflow | None, list[Problem]]:
    if isinstance(source, (str, bytes)):
        reading = read_yaml(source, file)
        report = Report(file, reading.source_map)
        report.include(reading.problems)
        data: Any = reading.data
        if data is None and reading.problems:
            return None, report.sorted()
    else:
        report = Report(file, SourceMap())
        data = source
        try:
            check_json(data, max_depth=MAX_DEPTH, max_bytes=MAX_FILE_BYTES)
        except NotJsonError as error:
            return None, [Problem(file, 0, 0, "not-json", error.what, error.remedy.capitalize(), error.pointer)]
    return _check_data(data, report, around)


def _check_keys(value: Any, path: Path, report: Report) -> None:
    """The reserved key marks references to stored values: no file may contain it."""
    if isinstance(value, dict):
        if RESERVED_KEY in value:
            what = f"rmhdag reserves the key `{RESERVED_KEY}` for itself"
            report.add_key((*path, RESERVED_KEY), "reserved-key", what, "Rename it")
        for key, member in value.items():
            _check_keys(member, (*path, key), report)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            _check_keys(member, (*path, index), report)


def _check_data(data: Any, report: Report, around: Surroundings) -> tuple[CheckedWorkflow | None, list[Problem]]:
    if not isinstance(data, dict):
        report.add((), "wrong-type", f"a workflow is an object, not {describe(data)}", "Begin with `workflow_id: name`")
        return None, report.sorted()
    _check_keys(data, (), report)
    report_structure(data, report)
    check_inputs(data, report)
    if "review" in data and "produces" not in data:
        what = "`review` asks for the approval of what the workflow creates, and it creates nothing"
        report.add_key(("review",), "review-without-produces", what, "Add `produces`, or remove `review`")
    graph = RawGraph(data)
    rules = NodeRules(data, graph, around.handlers, around.queues, report, around.fallback_queue)
    if len(graph.names) <= MAX_NODES:
        check_graph(graph, report)
        rules.check()
        templates = TemplateRules(data, graph, around.env_names, report, around.handlers)
        templates.check()
        check_checks(data.get("checks"), templates)
    if report.count:
        return None, report.sorted()
    return CheckedWorkflow(data, graph, rules, report.source_map), []

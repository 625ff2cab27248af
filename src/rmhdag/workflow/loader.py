"""A workflow from text, file, folder or JSON: read it, check it by all rules, give a definition or all problems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmhdag.models.json_values import NotJsonError, check_json
from rmhdag.workflow.catalogue import HandlerCatalogue
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.graph_rules import check_graph
from rmhdag.workflow.inputs import check_inputs
from rmhdag.workflow.node_rules import NodeRules
from rmhdag.workflow.normalise import normalise
from rmhdag.workflow.problems import InvalidWorkflow, Problem
from rmhdag.workflow.raw_graph import RawGraph
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import SourceMap
from rmhdag.workflow.structure import MAX_NODES, check_structure, describe
from rmhdag.workflow.template_rules import TemplateRules
from rmhdag.workflow.yaml_reader import MAX_DEPTH, MAX_FILE_BYTES, read_yaml

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """`source_map` finds a place in the text again; it is empty for workflows that came as JSON."""

    definition: WorkflowDefinition
    source_map: SourceMap
    hash: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the workflow is checked against; None means that this is not known here and not checked."""

    handlers: HandlerCatalogue | None = None
    queues: Collection[str] | None = None
    env_names: Collection[str] = ()


def definition_json(definition: WorkflowDefinition) -> dict[str, Any]:
    """As stored. Defaults are written out, so that a pinned definition means the same under later code."""
    return definition.model_dump(mode="json")


def definition_hash(definition: WorkflowDefinition) -> str:
    """Of what the workflow means, not of how its YAML is written.

    Fields at their default are left out: a version of rmhdag that adds a field must not change the hash of old files.
    """
    meaning = definition.model_dump(mode="json", exclude_defaults=True)
    for name, node in definition.nodes.items():
        meaning["nodes"][name]["type"] = node.type.value
    canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load(
    source: str | bytes | dict[str, Any],
    *,
    file: str = "workflow",
    handlers: HandlerCatalogue | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
) -> LoadedWorkflow:
    """A checked workflow from YAML text or from an already parsed object; raises InvalidWorkflow with all problems."""
    loaded, problems = check(source, file=file, handlers=handlers, queues=queues, env_names=env_names)
    if loaded is None:
        raise InvalidWorkflow(problems)
    return loaded


def check(
    source: str | bytes | dict[str, Any],
    *,
    file: str = "workflow",
    handlers: HandlerCatalogue | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
) -> tuple[LoadedWorkflow | None, list[Problem]]:
    """The workflow, or None and why not."""
    around = Surroundings(handlers, queues, env_names)
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


def _check_data(data: Any, report: Report, around: Surroundings) -> tuple[LoadedWorkflow | None, list[Problem]]:
    if not isinstance(data, dict):
        report.add((), "wrong-type", f"a workflow is an object, not {describe(data)}", "Begin with `workflow_id: name`")
        return None, report.sorted()
    check_structure(data, report)
    check_inputs(data, report)
    graph = RawGraph(data)
    rules = NodeRules(data, graph, around.handlers, around.queues, report)
    if len(graph.names) <= MAX_NODES:
        check_graph(graph, report)
        rules.check()
        TemplateRules(data, graph, around.env_names, report).check()
    if report.count:
        return None, report.sorted()
    definition = normalise(data, graph, rules)
    return LoadedWorkflow(definition, report.source_map, definition_hash(definition)), []


def read_limited(path: Path) -> bytes:
    """At most one byte more than a workflow may have: enough to see that it is too large."""
    with path.open("rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def load_file(
    path: Path,
    *,
    handlers: HandlerCatalogue | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
) -> LoadedWorkflow:
    return load(read_limited(path), file=str(path), handlers=handlers, queues=queues, env_names=env_names)


def workflow_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, by name; hidden ones and folders inside it are left alone."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def load_folder(
    folder: Path,
    *,
    handlers: HandlerCatalogue | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
) -> dict[str, LoadedWorkflow]:
    """All workflows of a folder by file name. One bad file refuses the whole folder, so that nothing is half-loaded."""
    loaded: dict[str, LoadedWorkflow] = {}
    problems: list[Problem] = []
    for path in workflow_files(folder):
        found, faults = check(read_limited(path), file=str(path), handlers=handlers, queues=queues, env_names=env_names)
        problems += faults
        if found is not None:
            loaded[path.name] = found
    problems += _refuse_twins(folder, loaded.items())
    if problems:
        raise InvalidWorkflow(problems)
    return loaded


def _refuse_twins(folder: Path, loaded: Iterable[tuple[str, LoadedWorkflow]]) -> list[Problem]:
    """The same id and version in two files could mean either."""
    first: dict[tuple[str, int], str] = {}
    problems: list[Problem] = []
    for name, workflow in loaded:
        key = (workflow.definition.workflow_id, workflow.definition.version)
        other = first.setdefault(key, name)
        if other != name:
            problems.append(
                Problem(
                    str(folder / name),
                    *workflow.source_map.value_at(("workflow_id",)),
                    "duplicate-workflow",
                    f"`{key[0]}` version {key[1]} is already defined in {other}",
                    "Give one of them another `workflow_id` or `version`",
                    "/workflow_id",
                )
            )
    return problems

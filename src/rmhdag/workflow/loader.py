"""Loads a workflow from text, file, folder or JSON: returns a checked definition or all problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmhdag.workflow.checker import CheckedWorkflow, Surroundings, find_problems
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.known_handlers import KnownHandlers
from rmhdag.workflow.problems import InvalidWorkflow, Problem
from rmhdag.workflow.source_files import read_limited, workflow_files
from rmhdag.workflow.source_map import SourceMap
from rmhdag.workflow.stored_form import definition_hash


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """`source_map` finds a place in the text; it is empty for workflows from JSON."""

    definition: WorkflowDefinition
    source_map: SourceMap
    hash: str


def load(
    source: str | bytes | dict[str, Any],
    *,
    file: str = "workflow",
    handlers: KnownHandlers | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
    fallback_queue: str | None = None,
) -> LoadedWorkflow:
    """A checked workflow from YAML text or from an already parsed object; raises InvalidWorkflow with all problems."""
    loaded, problems = check(
        source, file=file, handlers=handlers, queues=queues, env_names=env_names, fallback_queue=fallback_queue
    )
    if loaded is None:
        raise InvalidWorkflow(problems)
    return loaded


def check(
    source: str | bytes | dict[str, Any],
    *,
    file: str = "workflow",
    handlers: KnownHandlers | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
    fallback_queue: str | None = None,
) -> tuple[LoadedWorkflow | None, list[Problem]]:
    """The workflow, or None and its problems."""
    checked, problems = find_problems(source, Surroundings(handlers, queues, env_names, fallback_queue), file=file)
    return (None, problems) if checked is None else (make_definition(checked), [])


def make_definition(checked: CheckedWorkflow) -> LoadedWorkflow:
    """The one form that the engine runs."""
    definition = WorkflowDefinition.model_validate(checked.folded())
    return LoadedWorkflow(definition, checked.source_map, definition_hash(definition))


def load_file(
    path: Path,
    *,
    handlers: KnownHandlers | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
    fallback_queue: str | None = None,
) -> LoadedWorkflow:
    return load(
        read_limited(path),
        file=str(path),
        handlers=handlers,
        queues=queues,
        env_names=env_names,
        fallback_queue=fallback_queue,
    )


def load_folder(
    folder: Path,
    *,
    handlers: KnownHandlers | None = None,
    queues: Collection[str] | None = None,
    env_names: Collection[str] = (),
    fallback_queue: str | None = None,
) -> dict[str, LoadedWorkflow]:
    """All workflows of a folder by file name. One bad file refuses the whole folder, so that nothing is half loaded."""
    loaded: dict[str, LoadedWorkflow] = {}
    problems: list[Problem] = []
    for path in workflow_files(folder):
        definition, faults = check(
            read_limited(path),
            file=str(path),
            handlers=handlers,
            queues=queues,
            env_names=env_names,
            fallback_queue=fallback_queue,
        )
        problems += faults
        if definition is not None:
            loaded[path.name] = definition
    problems += _refuse_twins(folder, loaded.items())
    if problems:
        raise InvalidWorkflow(problems)
    return loaded


def _refuse_twins(folder: Path, loaded: Iterable[tuple[str, LoadedWorkflow]]) -> list[Problem]:
    """Refuse the same id and version in two files: it would be ambiguous."""
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

"""A whole workflow in a test: checked, run by the production engine on a virtual clock, with fakes for handlers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rmhdag.handlers import Registry, load_handlers
from rmhdag.testing.clock import VirtualClock
from rmhdag.testing.fakes import Fake, steps_of
from rmhdag.testing.jobs import Decision, VirtualJob
from rmhdag.testing.platform import VirtualPlatform
from rmhdag.testing.workers import VirtualWorkers
from rmhdag.workflow import HandlerEntry, KnownHandlers, load, load_file
from rmhdag.workflow.definition import WorkflowDefinition

# A file, the text of one (with line ends), or the parsed object.
Source = str | Path | Mapping[str, Any]
QUEUE = "virtual"


def run_workflow(
    workflow: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Mapping[str, Fake] | None = None,
    modules: Iterable[str] = (),
    workflows: Iterable[Source] = (),
    decisions: Mapping[str, bool | Decision] | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> VirtualJob:
    """Run a workflow until it has ended or waits for a person; takes milliseconds, however long its delays are.

    `handlers` replace handlers by name; all others run for real, if they come with rmhdag or are declared by
    `modules`. `workflows` are those that it runs as child jobs. `decisions` answer approvals by node. `folder` is
    where storage is; the default is a temporary folder.

    Raises InvalidWorkflow or InvalidInputs if registering or submitting would be refused.
    """
    return start_workflow(
        workflow,
        inputs,
        handlers=handlers,
        modules=modules,
        workflows=workflows,
        decisions=decisions,
        env=env,
        folder=folder,
    ).run()


def start_workflow(
    workflow: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Mapping[str, Fake] | None = None,
    modules: Iterable[str] = (),
    workflows: Iterable[Source] = (),
    decisions: Mapping[str, bool | Decision] | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> VirtualJob:
    """The same, submitted but not run: `wait(seconds)` and `run()` let it go on, for example up to a cancellation."""
    fakes = {name: steps_of(fake) for name, fake in (handlers or {}).items()}
    registry = load_handlers(modules)
    handler_index = _known_handlers(registry, fakes)
    definitions = [_load(source, handler_index, env or {}) for source in (workflow, *workflows)]
    clock = VirtualClock()
    platform = VirtualPlatform(
        clock,
        VirtualWorkers(clock, registry, fakes, folder),
        {definition.workflow_id: definition for definition in definitions},
        {name: handler_index.queue_of(name) or QUEUE for name in handler_index.names()},
        {node_id: _decision(answer) for node_id, answer in (decisions or {}).items()},
        env or {},
    )
    return platform.submit(definitions[0].workflow_id, inputs or {})


def _known_handlers(registry: Registry, fakes: Iterable[str]) -> KnownHandlers:
    """Only handlers that can run here: a workflow that needs others is refused with the place of the name."""
    entries = [HandlerEntry.from_manifest(manifest) for manifest in registry.manifests()]
    handlers = KnownHandlers(entry._replace(queue=entry.queue or QUEUE) for entry in entries)
    return handlers.with_entries(HandlerEntry(name, (), QUEUE) for name in fakes if name not in handlers)


def _load(source: Source, handlers: KnownHandlers, env: Mapping[str, str]) -> WorkflowDefinition:
    if isinstance(source, Mapping):
        return load(dict(source), handlers=handlers, env_names=env).definition
    if isinstance(source, str) and "\n" in source:
        return load(source, handlers=handlers, env_names=env).definition
    return load_file(Path(source), handlers=handlers, env_names=env).definition


def _decision(answer: bool | Decision) -> Decision:
    return Decision(answer) if isinstance(answer, bool) else answer

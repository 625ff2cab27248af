"""Workflow files into the database: checked against the queues and handlers that this installation has, then stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rmhdag
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.handler_modules import describe_handlers
from rmhdag.cli.workflow_files import CheckedFile, check_file, find_files, refuse_problems
from rmhdag.models.api.workflows import Registration
from rmhdag.orchestrator.registrations import (
    handler_queues,
    known_handlers,
    known_queues,
    register_definition,
    stored_form,
)
from rmhdag.store.workflows import OtherContentError, current_workflow
from rmhdag.workflow import definition_json, shipped_handlers
from rmhdag.workflow.definition import WorkflowDefinition

if TYPE_CHECKING:
    from rmhdag.cli.database import Conn
    from rmhdag.cli.settings import Settings
    from rmhdag.workflow.catalogue import HandlerEntry

# The names of queues in the workflows that come with rmhdag.
LIGHT, HEAVY = "light-tasks", "heavy-tasks"


def shipped_folder() -> Path:
    return Path(rmhdag.__file__).parent / "workflows"


class FreshHandlerQueues(dict[str, str]):
    """The same for a process that lives long: a handler that is not known yet may have come with a new worker."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        super().__init__()
        self._dsn = dsn
        self._settings = settings
        self.refresh()

    def __bool__(self) -> bool:
        """Empty as it may be, whoever has it must ask it."""
        return True

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self.refresh()
        return super().get(name, default)

    def refresh(self) -> None:
        from rmhdag.cli.database import open_connection

        with open_connection(self._dsn, self._settings) as conn:
            self.update(handler_queues(conn))


def configured_queues(conn: Conn, settings: Settings, namespace: str) -> set[str]:
    named = (queue for queue in (settings.dag_worker_queue, settings.worker_queue) if queue)
    known = known_queues(conn, namespace, named, settings.orphan_seconds)
    if not known:
        raise CommandFailed(
            "no queues are configured, so no workflow can be checked",
            remedy="Set DAG_WORKER_QUEUE and WORKER_QUEUE; `rmhdag up` names its own.",
            code=ExitCode.INVALID,
        )
    return known


def check_files(
    conn: Conn, settings: Settings, names: Sequence[str], namespace: str, own: Sequence[HandlerEntry] | None = None
) -> list[CheckedFile]:
    """With the handlers that workers have registered, and `own`: those of the modules that the settings name."""
    found = describe_handlers(settings.handlers) if own is None else own
    queues, handlers = configured_queues(conn, settings, namespace), known_handlers(conn, namespace).with_entries(found)
    return [
        check_file(
            name,
            queues=queues,
            handlers=handlers,
            env_names=settings.template_names(),
            fallback_queue=settings.dag_worker_queue,
        )
        for name in find_files(names)
    ]


def check_one_file(conn: Conn, settings: Settings, name: str, *, namespace: str) -> WorkflowDefinition:
    """As `register_files` would store it, with the same refusals; nothing is stored."""
    files = check_files(conn, settings, [name], namespace)
    refuse_problems([(problem, file.source) for file in files for problem in file.problems])
    definition = one_definition(name, files)
    there = current_workflow(conn, namespace, definition.workflow_id, definition.version)
    if there is not None and there.hash != stored_form(definition).hash and not settings.development:
        raise other_content(OtherContentError.of(definition.workflow_id, definition.version))
    return definition


def one_definition(name: str, files: Sequence[CheckedFile]) -> WorkflowDefinition:
    if len(files) != 1:
        raise CommandFailed(f"{name} holds {len(files)} workflows; name one", code=ExitCode.USAGE)
    definition = files[0].definition
    assert definition is not None
    return definition


def register_files(
    conn: Conn,
    settings: Settings,
    names: Sequence[str],
    *,
    namespace: str,
    registered_by: str,
    own: Sequence[HandlerEntry] | None = None,
) -> list[Registration]:
    """All of them or none: a problem in one file ends the command, with every problem shown."""
    registered = []
    files = check_files(conn, settings, names, namespace, own)
    refuse_problems([(problem, file.source) for file in files for problem in file.problems])
    for file in files:
        definition = file.definition
        assert definition is not None
        registered.append(store(conn, definition, namespace, registered_by, development=settings.development))
    return registered


def register_shipped(conn: Conn, settings: Settings, *, namespace: str, registered_by: str) -> list[Registration]:
    """The examples, in the queues that this installation has. They fit our handlers, whatever older workers have."""
    queues = {LIGHT: settings.dag_worker_queue or LIGHT, HEAVY: settings.worker_queue or HEAVY}
    registered = []
    for name in find_files([str(shipped_folder())]):
        file = check_file(name, handlers=shipped_handlers(), env_names=())
        found = file.definition
        assert found is not None, file.problems
        definition = in_queues(found, queues)
        registered.append(store(conn, definition, namespace, registered_by, development=True))
    return registered


def in_queues(definition: WorkflowDefinition, queues: Mapping[str, str]) -> WorkflowDefinition:
    stored = definition_json(definition)
    for node in stored["nodes"].values():
        task: dict[str, Any] | None = node.get("task")
        if task is not None and task["queue"] is not None:
            task["queue"] = queues.get(task["queue"], task["queue"])
    return WorkflowDefinition.model_validate(stored)


def store(
    conn: Conn, definition: WorkflowDefinition, namespace: str, registered_by: str, *, development: bool
) -> Registration:
    try:
        is_new = register_definition(conn, definition, namespace, registered_by, development=development)
    except OtherContentError as error:
        raise other_content(error) from error
    return Registration(
        workflow_id=definition.workflow_id,
        version=definition.version,
        hash=stored_form(definition).hash,
        node_count=len(definition.nodes),
        is_new=is_new,
    )


def other_content(error: OtherContentError) -> CommandFailed:
    return CommandFailed(
        str(error),
        remedy="In development mode (RMHDAG_DEVELOPMENT=1) the new content takes its place.",
        code=ExitCode.CONFLICT,
    )

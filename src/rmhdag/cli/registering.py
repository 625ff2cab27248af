"""Workflow files as the platform sees them: checked and registered through the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations, WorkflowToRun
from rmhdag.cli.shipped_workflows import HEAVY, LIGHT, shipped_workflows
from rmhdag.cli.workflow_files import (
    STDIN,
    CheckedFile,
    CheckedHead,
    EveryName,
    find_files,
    read_source,
    refuse_problems,
)
from rmhdag.models.api.workflows import Registration
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.loader import make_definition
from rmhdag.workflow.problems import Problem

NOT_REGISTERED = "nothing was registered"
NOT_SUBMITTED = "no job was submitted"


def check_files(platform: Operations, names: Sequence[str]) -> list[CheckedFile]:
    """What is wrong with files and folders, with the handlers and queues that the platform has now."""
    return check_sources(platform, {name: read_source(name) for name in find_files(names)})


def check_sources(platform: Operations, sources: Mapping[str, bytes]) -> list[CheckedFile]:
    files = []
    for name, source in sources.items():
        file = "<stdin>" if name == STDIN else name
        check = platform.client.validate(source)
        problems = [
            Problem(
                file,
                problem.line or 0,
                problem.column or 0,
                problem.code,
                problem.message,
                problem.remedy,
                problem.pointer,
            )
            for problem in check.problems
        ]
        head = CheckedHead(str(check.workflow_id), check.version or 1, check.node_count or 0) if check.valid else None
        files.append(CheckedFile(file, source, None, problems, head))
    return files


def register_files(
    platform: Operations, names: Sequence[str], *, consequence: str = NOT_REGISTERED
) -> list[Registration]:
    """Files and folders, all or none: problems are shown with the `consequence`, and end the command."""
    return register_checked(platform, check_files(platform, names), consequence)


def register_shipped(platform: Operations) -> list[Registration]:
    """The workflows that come with rmhdag, in the queues of the settings."""
    settings = platform.settings
    queues = {LIGHT: settings.dag_worker_queue or LIGHT, HEAVY: settings.worker_queue or HEAVY}
    return register_checked(platform, check_sources(platform, shipped_workflows(queues)))


def register_checked(
    platform: Operations, files: Sequence[CheckedFile], consequence: str = NOT_REGISTERED
) -> list[Registration]:
    refuse_problems(files, consequence)
    return [platform.client.register(file.source) for file in files]


def check_to_run(platform: Operations, name: str) -> WorkflowToRun:
    """A file as `register_files` would store it, with the same refusals. Nothing is stored."""
    files = check_files(platform, [name])
    refuse_problems(files, NOT_SUBMITTED)
    if len(files) != 1:
        raise CommandFailed(f"{name} holds {len(files)} workflows; name one", code=ExitCode.USAGE)
    # The platform has found nothing wrong with it; its surroundings are not needed any more.
    around = Surroundings(None, None, EveryName(), platform.settings.dag_worker_queue if platform.is_local else None)
    checked, _ = find_problems(files[0].source, around, file=name)
    assert checked is not None
    definition = make_definition(checked).definition
    workflow = WorkflowToRun(definition.workflow_id, definition.version, definition_json(definition))
    if platform.is_local and not platform.settings.development:
        stored = platform.workflow(workflow.workflow_id, workflow.version)
        if stored is not None and stored.hash != definition_hash(definition):
            raise CommandFailed(
                f"{workflow.workflow_id} version {workflow.version} is registered with another content; "
                "give the file a new version",
                remedy="In development mode (RMHDAG_DEVELOPMENT=1) the new content takes its place.",
                code=ExitCode.CONFLICT,
            )
    return workflow

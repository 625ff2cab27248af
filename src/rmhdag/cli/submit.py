"""`rmhdag submit`: a job of a registered workflow, or of a file that is registered first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.completion import complete_workflow
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from rmhdag.cli.platform import Platform, WorkflowToRun

TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer; exit code 8.")
]


def register(app: typer.Typer) -> None:
    app.command(short_help="Start a job; --wait shows it until it ends.")(submit)


def submit(
    workflow: Annotated[
        str,
        typer.Argument(
            metavar="WORKFLOW", help="A registered workflow, or a YAML file.", autocompletion=complete_workflow
        ),
    ],
    values: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Parameters.")] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Parameters as JSON, @file.json, or - for stdin.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the job until it ends.")] = False,
    timeout: TimeoutOption = None,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Not the newest version.")] = None,
    priority: Annotated[int, typer.Option("--priority", min=0, max=10, help="10 is most urgent.")] = 0,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key starts no second job.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", metavar="ID", help="Your own name for it.")
    ] = None,
    callback_url: Annotated[str | None, typer.Option("--callback-url", metavar="URL", help="Told of the end.")] = None,
    platform_id: Annotated[
        str | None,
        typer.Option(
            "--platform", metavar="ID", help="Order it for this platform: the job makes a revision of its asset."
        ),
    ] = None,
    refs: Annotated[
        list[str] | None, typer.Option("--ref", metavar="NAME=VALUE", help="What that platform calls the asset.")
    ] = None,
    supersede: Annotated[
        bool, typer.Option("--supersede", help="Cancel what processes that asset with other parameters.")
    ] = False,
    submitted_by: AsOption = None,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Start a job. Without --wait its id goes to stdout; with --wait its result does.

    \b
    Examples:
      rmhdag submit hello_world name=Ada --wait
      rmhdag submit fan_out_test 'items=["a", "b"]' --wait
      rmhdag submit flow.yaml --params @params.json --priority 5
      id=$(rmhdag submit echo_test count=3)
      rmhdag submit raster_processing --params @params.json --platform arcgis --ref item_id=a1

    Values are read as the declared type of the input; lists and objects as JSON, @file.json reads a value from a file.
    With --wait the exit code is 0 if the job completed, 1 if it failed, 7 if it was cancelled, 8 after --timeout.
    """
    from rmhdag.cli.observation import traced
    from rmhdag.cli.parameters import read_parameters, refuse_inputs
    from rmhdag.cli.platform import connected
    from rmhdag.models.api.jobs import JobSubmission
    from rmhdag.observability.traces import span
    from rmhdag.workflow import InvalidInputs, validate_inputs
    from rmhdag.workflow.definition import WorkflowDefinition

    options = {
        "priority": priority,
        "idempotency_key": checked(idempotency_key, "--idempotency-key", 128),
        "correlation_id": checked(correlation_id, "--correlation-id", 64),
        "callback_url": checked(callback_url, "--callback-url", 512),
    }
    if platform_id is None and (refs or supersede):
        raise CommandFailed("--ref and --supersede go with --platform", code=ExitCode.USAGE)
    if platform_id is not None and (version is not None or correlation_id is not None):
        raise CommandFailed(
            "an order takes the newest version, and its request is its correlation: leave these out",
            code=ExitCode.USAGE,
        )
    with (
        connected(url, database_url, schema, namespace=namespace, name=submitted_by) as platform,
        traced(platform.settings, "rmhdag-cli"),
    ):
        if wait and not dry_run:
            require_orchestrator(platform)
        stored = find_workflow(platform, workflow, version, store=not dry_run)
        given = read_parameters(stored.definition["inputs"], values or [], params)
        try:
            complete = validate_inputs(WorkflowDefinition.model_validate(stored.definition), given)
        except InvalidInputs as error:
            raise refuse_inputs(error, stored.workflow_id) from None
        if dry_run:
            show_dry_run(stored, complete, as_json=as_json)
            return
        with span("submit", {"rmhdag.workflow_id": stored.workflow_id}):
            wanted = {"workflow_id": stored.workflow_id, "input_params": given, **options}
            if platform_id is None:
                job_id = platform.submit(JobSubmission.model_validate({**wanted, "version": stored.version}))
                made: dict[str, Any] = {}
            else:
                job_id, made = order(platform, wanted, platform_id, refs or [], supersede=supersede)
        name = f"job {job_id} of {stored.workflow_id} v{stored.version}"
        if made.get("asset_id"):
            name += f", revision {made['revision']} of asset {made['asset_id']}"
        done = "joined" if made.get("joined") else "submitted"
        if made.get("joined"):
            name += ", which is under way with the same parameters"
        if not wait:
            if not platform.orchestrators_alive():
                say("no orchestrator is running, so the job waits until there is one (`rmhdag up`)")
            facts = {"job_id": job_id, "workflow_id": stored.workflow_id, "workflow_version": stored.version, **made}
            emit_json(facts) if as_json else emit(f"{job_id}\n")
            say(f"{done} {name}; `rmhdag job {job_id}` shows it")
            return
        from rmhdag.cli.waiting import wait_for_job

        say(f"{done} {name}" if made.get("joined") else name)
        wait_for_job(platform, job_id, timeout_seconds=timeout, as_json=as_json)


def order(
    platform: Platform, wanted: dict[str, Any], platform_id: str, refs: list[str], *, supersede: bool
) -> tuple[str, dict[str, Any]]:
    """The job that was made or joined, and what it makes."""
    from pydantic import ValidationError

    from rmhdag.cli.assets import read_refs
    from rmhdag.models.api.assets import WorkOrderBody

    given = {k: v for k, v in wanted.items() if k != "correlation_id"}
    try:
        body = WorkOrderBody.model_validate(
            {**given, "platform_id": platform_id, "platform_refs": read_refs(refs), "supersede": supersede}
        )
    except ValidationError as error:
        raise CommandFailed(f"--ref: {error.errors()[0]['msg']}", code=ExitCode.USAGE) from None
    made = platform.order(body)
    assert made.job_id is not None
    return made.job_id, made.model_dump(include={"request_id", "asset_id", "revision", "joined"})


def require_orchestrator(platform: Platform) -> None:
    if not platform.orchestrators_alive():
        raise CommandFailed(
            "no orchestrator is running, so there is nothing to wait for",
            remedy="Start everything with `rmhdag up`, or submit without --wait.",
            code=ExitCode.UNAVAILABLE,
        )


def find_workflow(platform: Platform, text: str, version: int | None, *, store: bool) -> WorkflowToRun:
    """The stored definition; a file is registered first, if `store`, else only checked."""
    from rmhdag.cli.platform import WORKFLOW_RETIRED, WorkflowToRun

    if text == "-" or text.endswith((".yaml", ".yml")) or Path(text).is_file():
        if not store:
            return platform.check_file(text)
        registered = platform.register([text])
        if len(registered) != 1:
            raise CommandFailed(f"{text} holds {len(registered)} workflows; name one", code=ExitCode.USAGE)
        text, version = registered[0].workflow_id, registered[0].version
    stored = platform.workflow(text, version)
    if stored is None:
        raise unknown_workflow(platform, text, version)
    if stored.retired_at is not None and not store:
        raise CommandFailed(
            f"workflow {text!r} is retired and takes no new jobs", remedy=WORKFLOW_RETIRED, code=ExitCode.CONFLICT
        )
    return WorkflowToRun(stored.workflow_id, stored.version, stored.definition)


def unknown_workflow(platform: Platform, text: str, version: int | None) -> CommandFailed:
    from rmhdag.workflow.problems import did_you_mean

    known = {line.workflow_id: line for line in platform.workflows(retired_too=True)}
    if text in known:
        remedy = f"The newest version is {known[text].version}."
    elif known:
        remedy = did_you_mean(text, known)
    else:
        remedy = "None is registered yet: `rmhdag workflows register FILE`, or `rmhdag up`."
    wanted = repr(text) if version is None else f"{text!r} version {version}"
    return CommandFailed(f"there is no workflow {wanted}", remedy=remedy, code=ExitCode.NOT_FOUND)


def show_dry_run(stored: WorkflowToRun, params: dict[str, Any], *, as_json: bool) -> None:
    from rmhdag.models.references import HIDDEN

    declared = stored.definition["inputs"]
    params = {name: HIDDEN if declared.get(name, {}).get("secret") else value for name, value in params.items()}
    facts = {"workflow_id": stored.workflow_id, "workflow_version": stored.version, "input_params": params}
    if as_json:
        emit_json({**facts, "dry_run": True})
        return
    from rmhdag.cli.waiting import as_text

    emit(as_text(params))
    say(
        f"a job of {stored.workflow_id} v{stored.version} would get these parameters; "
        "nothing was registered or submitted (--dry-run)"
    )


def checked(value: str | None, option: str, most: int) -> str | None:
    if value is not None and (not 0 < len(value) <= most or "\x00" in value):
        raise CommandFailed(f"{option} takes 1 to {most} characters", code=ExitCode.USAGE)
    return value

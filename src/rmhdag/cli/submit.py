"""`rmhdag submit`: a job of a registered workflow, or of a file that is registered first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from rmhdag.cli.assets import read_refs
from rmhdag.cli.completion import complete_workflow
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.label import read_labels
from rmhdag.cli.observation import traced
from rmhdag.cli.operations import WORKFLOW_RETIRED, Operations, WorkflowToRun
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JsonOption,
    LabelOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.parameters import read_parameters, refuse, refuse_inputs
from rmhdag.cli.tables import lay_out_facts, show_bytes, show_duration
from rmhdag.cli.waiting import as_text, wait_for_job
from rmhdag.models.api.assets import WorkOrderBody
from rmhdag.models.api.jobs import JobSubmission, SubmissionRequest
from rmhdag.models.api.previews import JobEstimate, JobPreview, OrderPreview
from rmhdag.models.references import HIDDEN
from rmhdag.observability.traces import span
from rmhdag.workflow.problems import did_you_mean

TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Time limit for waiting; then exit with code 8."),
]


def register(app: typer.Typer) -> None:
    app.command(short_help="Start a job; --wait shows its progress until it ends.")(submit)


def submit(
    workflow: Annotated[
        str,
        typer.Argument(metavar="WORKFLOW", help="Registered workflow or YAML file.", autocompletion=complete_workflow),
    ],
    values: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Parameters.")] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Parameters as JSON, @file.json, or - for stdin.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the job's progress until it ends.")] = False,
    timeout: TimeoutOption = None,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Workflow version to use (default: latest).")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", min=0, max=10, help="Priority; 10 is the highest.")] = 0,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="KEY", help="Submitting again with the same key starts no second job."
        ),
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", metavar="ID", help="Your own id for the job.")
    ] = None,
    labels: LabelOption = None,
    callback_url: Annotated[
        str | None, typer.Option("--callback-url", metavar="URL", help="URL to notify when the job finishes.")
    ] = None,
    platform_id: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="ID",
            help="Order for this platform: the job creates a revision of the platform's asset.",
        ),
    ] = None,
    refs: Annotated[
        list[str] | None,
        typer.Option(
            "--ref", metavar="NAME=VALUE", help="The platform's own reference for the asset; may be repeated."
        ),
    ] = None,
    supersede: Annotated[
        bool,
        typer.Option(
            "--supersede", help="If this asset is already being processed with different parameters, cancel that job."
        ),
    ] = False,
    previous_version: Annotated[
        str | None,
        typer.Option(
            "--previous-version",
            metavar="LABEL",
            help="The version that this builds on; exit code 6 if the asset serves another one by now.",
        ),
    ] = None,
    submitted_by: AsOption = None,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Start a job. Without --wait, its id is printed to stdout; with --wait, its result.

    \b
    Examples:
      rmhdag submit hello_world name=Ada --wait
      rmhdag submit fan_out_test 'items=["a", "b"]' --wait
      rmhdag submit flow.yaml --params @params.json --priority 5
      rmhdag submit echo_test count=3 --label aoi=oslo --label team=gis
      id=$(rmhdag submit echo_test count=3)
      rmhdag submit raster_processing --params @params.json --platform arcgis --ref item_id=a1

    Values are parsed as the declared type of the input, lists and objects as JSON; @file.json reads a value from a
    file. With --wait, the exit code is 0 if the job completed, 1 if it failed, 7 if it was cancelled, 8 after
    --timeout.
    """
    options = {
        "priority": priority,
        "idempotency_key": checked(idempotency_key, "--idempotency-key", 128),
        "correlation_id": checked(correlation_id, "--correlation-id", 64),
        "callback_url": checked(callback_url, "--callback-url", 512),
        "labels": read_labels(labels or []),
    }
    of_order = {
        "supersede": supersede,
        "previous_version": checked(previous_version, "--previous-version", 128),
    }
    if platform_id is None and (refs or supersede or previous_version is not None):
        raise CommandFailed("--ref, --supersede and --previous-version go with --platform", code=ExitCode.USAGE)
    if platform_id is not None and (version is not None or correlation_id is not None):
        raise CommandFailed(
            "--version and --correlation-id cannot be used with --platform: an order always runs the latest version "
            "and uses its request id as the correlation id",
            code=ExitCode.USAGE,
        )
    with (
        connected(url, database_url, schema, namespace=namespace, name=submitted_by, submits=True) as platform,
        traced(platform.settings, "rmhdag-cli"),
    ):
        if wait and not dry_run:
            require_orchestrator(platform)
        stored = find_workflow(platform, workflow, version, store=not dry_run)
        input_params = read_parameters(stored.definition["inputs"], values or [], params)
        fields = {"workflow_id": stored.workflow_id, "input_params": input_params, **options}
        if dry_run:
            if platform_id is not None:
                preview = platform.preview_order(order_body(fields | of_order, platform_id, refs or []))
                show_order_preview(preview, as_json=as_json)
            elif stored.is_registered:
                body = SubmissionRequest.model_validate({**fields, "version": stored.version})
                job_preview = platform.preview(body)
                require_valid(job_preview, stored.workflow_id)
                show_dry_run(stored, input_params, job_preview.estimate, as_json=as_json)
            else:
                show_dry_run(stored, input_params, None, as_json=as_json)
            return
        with span("submit", {"rmhdag.workflow_id": stored.workflow_id}):
            if platform_id is None:
                job_id = platform.submit(JobSubmission.model_validate({**fields, "version": stored.version}))
                result: dict[str, Any] = {}
            else:
                job_id, result = order(platform, fields | of_order, platform_id, refs or [])
        name = f"job {job_id} of {stored.workflow_id} v{stored.version}"
        if result.get("asset_id"):
            name += f", revision {result['revision']} of asset {result['asset_id']}"
        done = "joined" if result.get("joined") else "submitted"
        if result.get("joined"):
            name += ", which is already running with the same parameters"
        if not wait:
            if not platform.orchestrators_alive():
                say("no orchestrator is running, so the job waits until one is started (`rmhdag up`)")
            facts = {"job_id": job_id, "workflow_id": stored.workflow_id, "workflow_version": stored.version, **result}
            emit_json(facts) if as_json else emit(f"{job_id}\n")
            say(f"{done} {name}; `rmhdag job {job_id}` shows it")
            return
        say(f"{done} {name}" if result.get("joined") else name)
        try:
            wait_for_job(platform, job_id, timeout_seconds=timeout, as_json=as_json)
        except typer.Exit as end:
            if end.exit_code == ExitCode.OK and result.get("asset_id"):
                tell_review(platform, result["asset_id"], result["revision"])
            raise


def tell_review(platform: Operations, asset_id: str, revision: int) -> bool:
    """The job has completed, but what it has made may not be served yet. True if it waits."""
    is_waiting = platform.revision(asset_id, revision).review_state == "pending_review"
    if is_waiting:
        say(f"revision {revision} waits for a decision before it is served; `rmhdag approvals` lists it")
    return is_waiting


def order(platform: Operations, body: dict[str, Any], platform_id: str, refs: list[str]) -> tuple[str, dict[str, Any]]:
    """The job that was made or joined, and what it makes."""
    answer = platform.order(order_body(body, platform_id, refs))
    assert answer.job_id is not None
    return answer.job_id, answer.model_dump(include={"request_id", "asset_id", "revision", "joined"})


def order_body(body: dict[str, Any], platform_id: str, refs: list[str]) -> WorkOrderBody:
    fields = {name: value for name, value in body.items() if value is not None}
    try:
        return WorkOrderBody.model_validate({**fields, "platform_id": platform_id, "platform_refs": read_refs(refs)})
    except ValidationError as error:
        raise CommandFailed(f"--ref: {error.errors()[0]['msg']}", code=ExitCode.USAGE) from None


def require_valid(preview: JobPreview, workflow_id: str) -> None:
    """Else it fails as the submission would."""
    if not preview.valid:
        lines = [(problem.pointer.removeprefix("/input_params"), problem.detail) for problem in preview.problems]
        raise refuse(lines, workflow_id)


def show_order_preview(preview: OrderPreview, *, as_json: bool) -> None:
    """Exit code 3 if the order would be refused, 6 if it would conflict with what is under way."""
    if as_json:
        emit_json(preview.model_dump())
    else:
        facts: list[tuple[str, object]] = [
            ("outcome", preview.outcome),
            ("asset", preview.asset_id and f"{preview.asset_id}{'' if preview.asset_exists else ' (new)'}"),
            ("revision", preview.revision),
            ("version", preview.version_label),
            ("review", "waits for an approval before it is served" if preview.waits_for_review else None),
            ("joins", preview.job_id and f"job {preview.job_id}"),
            ("cancels", preview.supersedes_job_id and f"job {preview.supersedes_job_id}"),
            *cost_lines(preview.estimate),
            ("served now", preview.current_revision and f"revision {preview.current_revision}"),
            ("", preview.current_version and f"version {preview.current_version}"),
            *[("problem", f"{problem.pointer or 'the order'}: {problem.detail}") for problem in preview.problems],
            *[("warning", warning.message) for warning in preview.warnings],
        ]
        emit(lay_out_facts(((name, value) for name, value in facts if value), 12))
        say("nothing was created (--dry-run)")
    if preview.outcome == "conflict":
        raise typer.Exit(ExitCode.CONFLICT)
    if not preview.valid:
        raise typer.Exit(ExitCode.INVALID)


def require_orchestrator(platform: Operations) -> None:
    if not platform.orchestrators_alive():
        raise CommandFailed(
            "no orchestrator is running, so there is nothing to wait for",
            remedy="Start everything with `rmhdag up`, or submit without --wait.",
            code=ExitCode.UNAVAILABLE,
        )


def find_workflow(platform: Operations, text: str, version: int | None, *, store: bool) -> WorkflowToRun:
    """The stored definition; a file is registered first, if `store`, else only checked."""
    if text == "-" or text.endswith((".yaml", ".yml")) or Path(text).is_file():
        from rmhdag.cli.registering import NOT_SUBMITTED, check_to_run, register_files

        if not store:
            return check_to_run(platform, text)
        registered = register_files(platform, [text], consequence=NOT_SUBMITTED)
        if len(registered) != 1:
            raise CommandFailed(f"{text} holds {len(registered)} workflows; name one", code=ExitCode.USAGE)
        text, version = registered[0].workflow_id, registered[0].version
    stored = platform.workflow(text, version)
    if stored is None:
        raise unknown_workflow(platform, text, version)
    if stored.retired_at is not None and not store:
        raise CommandFailed(
            f"workflow {text!r} is retired and accepts no new jobs", remedy=WORKFLOW_RETIRED, code=ExitCode.CONFLICT
        )
    return WorkflowToRun(stored.workflow_id, stored.version, stored.definition, is_registered=True)


def unknown_workflow(platform: Operations, text: str, version: int | None) -> CommandFailed:
    workflows = {line.workflow_id: line for line in platform.client.workflows(retired_too=True)}
    if text in workflows:
        remedy = f"The newest version is {workflows[text].version}."
    elif workflows:
        remedy = did_you_mean(text, workflows)
    else:
        remedy = "None is registered yet: `rmhdag workflows register FILE`, or `rmhdag up`."
    name = repr(text) if version is None else f"{text!r} version {version}"
    return CommandFailed(f"there is no workflow {name}", remedy=remedy, code=ExitCode.NOT_FOUND)


def cost_lines(estimate: JobEstimate | None) -> list[tuple[str, object]]:
    """What is known of it before it runs."""
    if estimate is None:
        return []
    usual = estimate.p50_seconds is not None and (
        f"{show_duration(estimate.p50_seconds)} usually, 95 of 100 within {show_duration(estimate.p95_seconds)} "
        f"({estimate.runs:,} runs in 30 days)"
    )
    return [
        ("tasks", None if estimate.tasks is None else f"{estimate.tasks:,}"),
        ("reads", None if estimate.input_bytes is None else show_bytes(estimate.input_bytes)),
        ("takes", usual or None),
    ]


def show_dry_run(
    stored: WorkflowToRun, input_params: dict[str, Any], estimate: JobEstimate | None, *, as_json: bool
) -> None:
    from rmhdag.workflow import InvalidInputs, validate_inputs
    from rmhdag.workflow.definition import WorkflowDefinition

    try:
        params = validate_inputs(WorkflowDefinition.model_validate(stored.definition), input_params)
    except InvalidInputs as error:
        raise refuse_inputs(error, stored.workflow_id) from None
    declared = stored.definition["inputs"]
    params = {name: HIDDEN if declared.get(name, {}).get("secret") else value for name, value in params.items()}
    facts = {"workflow_id": stored.workflow_id, "workflow_version": stored.version, "input_params": params}
    if as_json:
        emit_json({**facts, "estimate": estimate and estimate.model_dump(), "dry_run": True})
        return
    emit(as_text(params))
    for name, value in cost_lines(estimate):
        if value is not None:
            say(f"{name} {value}")
    say(
        f"a job of {stored.workflow_id} v{stored.version} would get these parameters; "
        "nothing was registered or submitted (--dry-run)"
    )


def checked(value: str | None, option: str, most: int) -> str | None:
    if value is not None and (not 0 < len(value) <= most or "\x00" in value):
        raise CommandFailed(f"{option} takes 1 to {most} characters", code=ExitCode.USAGE)
    return value

"""`rmhdag retry`: retry a node of a running job, or rerun a finished job as a new one that reuses finished results."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from rmhdag.cli.cancel import tell_answer
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.parameters import read_parameters
from rmhdag.cli.submit import TimeoutOption, checked, require_orchestrator
from rmhdag.cli.waiting import wait_for_job
from rmhdag.models.api.jobs import RerunAnswer, RerunRequest


def register(app: typer.Typer) -> None:
    app.command(short_help="Run the failed parts again; reuse finished results.")(retry)


def retry(
    job_id: JobArgument,
    values: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changed parameters.")] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="In a running job: retry this node now.")
    ] = None,
    from_nodes: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="NODE", help="Also run this node and all nodes after it again."),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Run everything again; reuse nothing.")] = False,
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="JSON", help="Changed parameters as JSON, @file.json, or - for stdin."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the new job's progress until it ends.")] = False,
    timeout: TimeoutOption = None,
    idempotency_key: Annotated[str | None, typer.Option("--idempotency-key", metavar="KEY")] = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run a finished job again, as a new job: the nodes that failed, never ran or read a changed parameter, and all
    nodes after them. Finished results are reused; the old job never changes. In a running job, --node immediately
    retries a node that failed or waits for its next attempt.

    \b
    Examples:
      rmhdag retry 0198f3c2 --wait
      rmhdag retry 0198f3c2 --from reproject
      rmhdag retry 0198f3c2 resolution=10 --dry-run
      rmhdag retry 0198f3c2 --node split__17
    """
    if node is not None and (from_nodes or everything or values or params):
        raise CommandFailed(
            "--node retries one node of a running job and cannot be combined with other options", code=ExitCode.USAGE
        )
    if everything and from_nodes:
        raise CommandFailed("--everything and --from exclude each other", code=ExitCode.USAGE)
    key = checked(idempotency_key, "--idempotency-key", 128)
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        full_id = platform.find_job(job_id)
        if node is not None:
            retry_node(platform, full_id, node, as_json=as_json)
            return
        if wait and not dry_run:
            require_orchestrator(platform)
        options = {
            "input_params": changed_parameters(platform, full_id, values or [], params),
            "from_nodes": from_nodes or [],
            "everything": everything,
            "dry_run": dry_run,
            "idempotency_key": key,
        }
        answer = platform.rerun(full_id, read_request(options))
        if dry_run:
            preview(answer, as_json=as_json)
            return
        assert answer.job_id is not None
        say(f"job {answer.job_id} reruns {full_id}: {describe(answer)}")
        if wait:
            wait_for_job(platform, answer.job_id, timeout_seconds=timeout, as_json=as_json)
        fields = answer.model_dump(include={"job_id", "rerun_of", "again", "reused"})
        emit_json(fields) if as_json else emit(f"{answer.job_id}\n")


def changed_parameters(platform: Operations, job_id: str, values: list[str], params: str | None) -> dict[str, Any]:
    """Read by the types of the inputs of the workflow, as the job has it."""
    if not values and params is None:
        return {}
    job = platform.overview(job_id)
    stored = platform.workflow(job.workflow_id, job.workflow_version)
    return read_parameters({} if stored is None else stored.definition["inputs"], values, params)


def read_request(options: dict[str, Any]) -> RerunRequest:
    try:
        return RerunRequest.model_validate(options)
    except ValidationError as error:
        raise CommandFailed(str(error.errors()[0]["msg"]), code=ExitCode.INVALID) from None


def describe(answer: RerunAnswer) -> str:
    rest = f"; {', '.join(answer.keeps_children)} keeps its finished children" if answer.keeps_children else ""
    return f"{len(answer.again)} nodes run again, {len(answer.reused)} are reused{rest}"


def preview(answer: RerunAnswer, *, as_json: bool) -> None:
    if as_json:
        names = ("rerun_of", "input_params", "again", "reused", "keeps_children", "dry_run")
        emit_json({name: getattr(answer, name) for name in names})
        return
    for title, nodes in (("again", answer.again), ("reused", answer.reused)):
        emit("".join(f"{title:<7} {node_id}\n" for node_id in nodes))
    say(f"{describe(answer)}; nothing was started (--dry-run)")


def retry_node(platform: Operations, job_id: str, node_id: str, *, as_json: bool) -> None:
    job = platform.overview(job_id)
    if job.has_ended:
        raise CommandFailed(
            f"job {job_id} is already {job.status}; --node is for running jobs",
            remedy=f"`rmhdag retry {job_id} --from {node_id}` runs it again, in a new job.",
            code=ExitCode.CONFLICT,
        )
    tell_answer(platform, job_id, platform.retry_node(job_id, node_id), as_json=as_json)

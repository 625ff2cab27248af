"""`rmhdag retry`: a node of a running job once more, or a finished job as a new one that reuses what is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import AsOption, DryRunOption, JobArgument, JsonOption, NamespaceOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.submit import TimeoutOption

if TYPE_CHECKING:
    from rmhdag.cli.platform import Platform
    from rmhdag.orchestrator.reruns import PlannedRerun


def register(app: typer.Typer) -> None:
    app.command(short_help="Run again what failed; reuse what is finished.")(retry)


def retry(
    job_id: JobArgument,
    values: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changed parameters.")] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="In a running job: this node, now.")
    ] = None,
    from_nodes: Annotated[
        list[str] | None, typer.Option("--from", metavar="NODE", help="Also this node and all behind it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Reuse nothing.")] = False,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Changed parameters as JSON, @file.json, or -.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the new job until it ends.")] = False,
    timeout: TimeoutOption = None,
    idempotency_key: Annotated[str | None, typer.Option("--idempotency-key", metavar="KEY")] = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = "default",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run a finished job again, as a new job: what failed or never ran, what reads a changed parameter, and all that
    lies behind. What is finished is reused; the old job never changes. In a running job, --node tries a node now that
    failed or waits for its next attempt.

    \b
    Examples:
      rmhdag retry 0198f3c2 --wait
      rmhdag retry 0198f3c2 --from reproject
      rmhdag retry 0198f3c2 resolution=10 --dry-run
      rmhdag retry 0198f3c2 --node split__17
    """
    from rmhdag.cli.platform import connected, find_job, who
    from rmhdag.cli.submit import checked, require_orchestrator
    from rmhdag.orchestrator.reruns import NothingToRerunError, rerun_job
    from rmhdag.orchestrator.submissions import OtherSubmissionError

    if node is not None and (from_nodes or everything or values or params):
        raise CommandFailed("--node tries one node of a running job and takes nothing else", code=ExitCode.USAGE)
    with connected(database_url, schema) as platform:
        full_id = find_job(platform.conn, namespace, job_id)
        if node is not None:
            retry_node(platform, namespace, full_id, node, who(issued_by), as_json=as_json)
            return
        if wait and not dry_run:
            require_orchestrator(platform)
        planned = plan(platform, namespace, full_id, values or [], params, from_nodes or [], everything)
        if dry_run:
            preview(planned, as_json=as_json)
            return
        try:
            new_id = rerun_job(
                platform.conn,
                planned,
                issued_by=who(issued_by),
                idempotency_key=checked(idempotency_key, "--idempotency-key", 128),
            ).job_id
        except NothingToRerunError as error:
            raise CommandFailed(
                str(error), remedy="--everything or --from NODE runs it again all the same.", code=ExitCode.CONFLICT
            ) from None
        except OtherSubmissionError as error:
            raise CommandFailed(str(error), code=ExitCode.CONFLICT) from None
        say(f"job {new_id} reruns {full_id}: {describe(planned)}")
        if wait:
            from rmhdag.cli.waiting import wait_for_job

            wait_for_job(platform, namespace, new_id, timeout_seconds=timeout, as_json=as_json)
        scope = planned.scope
        facts = {"job_id": new_id, "rerun_of": full_id, "again": scope.again, "reused": scope.reused}
        emit_json(facts) if as_json else emit(f"{new_id}\n")


def plan(
    platform: Platform,
    namespace: str,
    job_id: str,
    values: list[str],
    params: str | None,
    from_nodes: list[str],
    everything: bool,
) -> PlannedRerun:
    from rmhdag.cli.parameters import read_parameters, refuse
    from rmhdag.engine.rerun import RerunError
    from rmhdag.orchestrator.reruns import JobNotFinishedError, UnknownJobError, plan_rerun_of
    from rmhdag.store import jobs, reruns
    from rmhdag.workflow import InvalidInputs

    job = reruns.read_job(platform.conn, namespace, job_id)
    assert job is not None
    definition = jobs.load_definition(
        platform.conn, namespace, job.workflow_id, job.workflow_version, job.workflow_hash
    )
    changed = read_parameters(definition["inputs"], values, params)
    try:
        return plan_rerun_of(
            platform.conn,
            job_id,
            namespace=namespace,
            changed_params=changed,
            from_nodes=from_nodes,
            everything=everything,
        )
    except InvalidInputs as error:
        raise refuse(error, job.workflow_id) from None
    except JobNotFinishedError as error:
        raise CommandFailed(
            str(error),
            remedy="Wait for its end, cancel it, or try one node now with --node NODE.",
            code=ExitCode.CONFLICT,
        ) from None
    except (RerunError, UnknownJobError) as error:
        raise CommandFailed(str(error), code=ExitCode.NOT_FOUND) from None


def describe(planned: PlannedRerun) -> str:
    scope = planned.scope
    kept = f"; {', '.join(scope.keeps_children)} keeps its finished children" if scope.keeps_children else ""
    return f"{len(scope.again)} nodes run again, {len(scope.reused)} are reused{kept}"


def preview(planned: PlannedRerun, *, as_json: bool) -> None:
    scope = planned.scope
    if as_json:
        facts = {"rerun_of": planned.job.job_id, "input_params": planned.input_params, "again": scope.again}
        emit_json({**facts, "reused": scope.reused, "keeps_children": scope.keeps_children, "dry_run": True})
        return
    for title, nodes in (("again", scope.again), ("reused", scope.reused)):
        emit("".join(f"{title:<7} {node_id}\n" for node_id in nodes))
    say(f"{describe(planned)}; nothing was started (--dry-run)")


def retry_node(platform: Platform, namespace: str, job_id: str, node_id: str, issued_by: str, *, as_json: bool) -> None:
    from rmhdag.api.views.pictures import ENDED
    from rmhdag.cli.cancel import tell_answer
    from rmhdag.orchestrator.commands import retry_node as ask
    from rmhdag.store import views

    job = views.job(platform.conn, namespace, job_id)
    if job is not None and job["status"] in ENDED:
        raise CommandFailed(
            f"job {job_id} is already {job['status']}; --node is for running jobs",
            remedy=f"`rmhdag retry {job_id} --from {node_id}` runs it again, in a new job.",
            code=ExitCode.CONFLICT,
        )
    answer = ask(platform.conn, job_id, node_id, issued_by=issued_by, namespace=namespace)
    tell_answer(platform, job_id, answer, as_json=as_json)

"""How a command reports the end of a job: the result, or the error with the exact next command; and its exit code."""

from __future__ import annotations

from typing import Any, NoReturn

import typer

from rmhdag.cli.data_errors import count_warnings, describe_cause, describe_failed_children, describe_warnings
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.live_view import Detached, WaitTimeout, watch_job
from rmhdag.cli.next_steps import steps_after_failure
from rmhdag.cli.operations import Operations
from rmhdag.cli.output import emit, emit_json, say, show_json
from rmhdag.cli.tables import indent_lines, show_duration
from rmhdag.models.api.overviews import JobOverview

CODES = {"completed": ExitCode.OK, "failed": ExitCode.FAILED, "cancelled": ExitCode.CANCELLED}


def wait_for_job(platform: Operations, job_id: str, *, timeout_seconds: float | None, as_json: bool) -> NoReturn:
    ended = watch_it(platform, job_id, timeout_seconds=timeout_seconds, as_json=as_json)
    tell_end(platform, ended, as_json=as_json)
    raise typer.Exit(CODES[ended.status])


def watch_to_end(platform: Operations, job_id: str) -> JobOverview:
    """For commands that go on with what a job has made; one that did not complete ends the command."""
    ended = watch_it(platform, job_id, timeout_seconds=None, as_json=False)
    if ended.status != "completed":
        tell_end(platform, ended, as_json=False)
        raise typer.Exit(CODES[ended.status])
    say(f"completed in {show_duration(ended.duration_seconds or 0.0)}")
    tell_warnings(ended)
    return ended


def watch_it(platform: Operations, job_id: str, *, timeout_seconds: float | None, as_json: bool) -> JobOverview:
    platform.patience.most_seconds = None
    try:
        ended = watch_job(platform, job_id, timeout_seconds=timeout_seconds)
        ended.result_data = platform.whole(job_id, ended.result_data)
        return ended
    except Detached:
        say(f"\ndetached; job {job_id} continues")
        say(f"  rmhdag job {job_id} --wait    look again")
        say(f"  rmhdag cancel {job_id}        stop it")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except WaitTimeout:
        say(f"not ended after {show_duration(timeout_seconds)}; job {job_id} continues")
        say(f"  rmhdag job {job_id}           what it waits for")
        say(f"  rmhdag job {job_id} --wait    look again")
        if as_json:
            emit_json({"job_id": job_id, "status": "running", "timed_out": True})
        raise typer.Exit(ExitCode.WAIT_TIMEOUT) from None


def tell_end(platform: Operations, job: JobOverview, *, as_json: bool) -> None:
    took = show_duration(job.duration_seconds or 0.0)
    done = f"{job.node_counts.completed} of {job.node_counts.total} nodes completed"
    if as_json:
        emit_json(as_facts(job))
    if job.status == "completed":
        say(f"completed in {took}, {done}")
        tell_warnings(job)
        if not as_json and job.result_data is not None:
            emit(as_text(job.result_data))
        return
    say(f"{job.status} after {took}, {done}")
    if job.error_message:
        say(f"  {indent_lines(job.error_message, 2)}")
    if job.error is not None:
        say(f"  {describe_cause(job.error)}")
    tell_warnings(job)
    if job.status == "failed":
        tell_failure(platform, job)


def tell_warnings(job: JobOverview) -> None:
    if job.warnings:
        say(f"{count_warnings(job.warnings)}:")
        for warning in describe_warnings(job.warnings):
            say(f"  {warning}")


def tell_failure(platform: Operations, job: JobOverview) -> None:
    failed = [node for node in job.nodes if node.status == "failed"]
    logs_of = failed[0].node_id if failed else None
    for children in describe_failed_children(platform, job).values():
        for _, line in children:
            say(f"  {line}")
        logs_of = children[0][0] or logs_of
    say("Next:")
    child_job = next((node.child_job_id for node in failed if node.child_job_id is not None), None)
    if child_job is not None:
        # What went wrong was written there: the node itself writes nothing.
        say(f"  rmhdag job {child_job}     the child job that failed")
        say(f"  rmhdag logs {child_job}")
    else:
        say(f"  rmhdag logs {job.job_id}" + (f" --node {logs_of}" if logs_of else ""))
    for step in steps_after_failure(job.job_id, job.error):
        say(f"  {step.command}    {step.meaning}")


def as_facts(job: JobOverview, *, with_reasons: bool = False) -> dict[str, Any]:
    """The object of `--json`. Counts of nothing are left out."""
    # The parts that only the web interface asks for are always empty here.
    hidden = {"seen_at", "progress", "structure", *(() if with_reasons else ("reruns",))}
    facts = job.model_dump(exclude=hidden)
    facts["node_counts"] = some(facts["node_counts"])
    for node in facts["nodes"]:
        reason = node.pop("reason")
        if node["children"] is not None:
            node["children"] = some(node["children"])
        if with_reasons:
            node["reason"] = None if reason is None else {name: reason[name] for name in reason if name != "node_id"}
    return facts


def some(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count or name == "total"}


def as_text(value: Any) -> str:
    return show_json(value, indent=2) + "\n"

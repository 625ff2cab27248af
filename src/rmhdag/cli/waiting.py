"""The end of a job as a command tells it: the result, or the error with the exact next command; and its exit code."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer

from rmhdag.api.views.pictures import JobPicture
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.live_view import Detached, WaitTimeout, watch_job
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.platform import Platform
from rmhdag.cli.tables import show_duration
from rmhdag.store import views

CODES = {"completed": ExitCode.OK, "failed": ExitCode.FAILED, "cancelled": ExitCode.CANCELLED}
NAMED_CHILDREN = 5


def wait_for_job(
    platform: Platform, namespace: str, job_id: str, *, timeout_seconds: float | None, as_json: bool
) -> NoReturn:
    try:
        picture = watch_job(platform, namespace, job_id, timeout_seconds=timeout_seconds)
    except Detached:
        say(f"\ndetached; job {job_id} goes on")
        say(f"  rmhdag job {job_id} --wait    look again")
        say(f"  rmhdag cancel {job_id}        stop it")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except WaitTimeout:
        say(f"not ended after {show_duration(timeout_seconds)}; job {job_id} goes on")
        say(f"  rmhdag job {job_id}           what it waits for")
        say(f"  rmhdag job {job_id} --wait    look again")
        if as_json:
            emit_json({"job_id": job_id, "status": "running", "timed_out": True})
        raise typer.Exit(ExitCode.WAIT_TIMEOUT) from None
    tell_end(platform, picture, as_json=as_json)
    raise typer.Exit(CODES[picture.status])


def tell_end(platform: Platform, picture: JobPicture, *, as_json: bool) -> None:
    job = picture.job
    counts = picture.node_counts
    took = show_duration(job["duration_seconds"]) or "0.0s"
    done = f"{counts.get('completed', 0)} of {counts['total']} nodes completed"
    if as_json:
        emit_json(picture.as_json())
    if picture.status == "completed":
        say(f"completed in {took}, {done}")
        if not as_json and job["result_data"] is not None:
            emit(as_text(job["result_data"]))
        return
    say(f"{picture.status} after {took}, {done}")
    if job["error_message"]:
        say(f"  {job['error_message']}")
    if picture.status == "failed":
        tell_failure(platform, picture)


def tell_failure(platform: Platform, picture: JobPicture) -> None:
    job_id = picture.job["job_id"]
    failed = [node for node in picture.nodes if node.status == "failed"]
    logs_of = failed[0].node_id if failed else None
    for node in picture.nodes:
        if node.failed:
            children = views.failed_children(platform.conn, job_id, node.node_id, NAMED_CHILDREN)
            for child_id, message in children:
                say(f"  {child_id}: {message or 'no message'}")
            if node.failed > len(children):
                say(f"  … and {node.failed - len(children)} more")
            logs_of = children[0][0] if children else logs_of
    say("Next:")
    say(f"  rmhdag logs {job_id}" + (f" --node {logs_of}" if logs_of else ""))
    say(f"  rmhdag retry {job_id}    a new job that reuses what is finished")


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

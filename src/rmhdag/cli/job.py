"""`rmhdag job`: one job with its nodes, what waits and why, or one node of it, or its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import JobArgument, JsonOption, NamespaceOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.submit import TimeoutOption

if TYPE_CHECKING:
    from rmhdag.api.views.pictures import JobPicture
    from rmhdag.cli.platform import Platform
    from rmhdag.models.api.jobs import Reason


def register(app: typer.Typer) -> None:
    app.command(short_help="Show a job: its nodes, and why they wait.")(job)


def job(
    job_id: JobArgument,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Parameters and output of one node.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="What has happened, oldest first.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the job until it ends.")] = False,
    timeout: TimeoutOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show a job: status, nodes, what waits and why, result or error.

    \b
    Examples:
      rmhdag job 0198f3c2
      rmhdag job 0198f3c2 --node split__17
      rmhdag job 0198f3c2 --events
      rmhdag job 0198f3c2 --wait
    """
    from rmhdag.api.views.pictures import order_of, take_picture
    from rmhdag.cli.platform import connected, find_job
    from rmhdag.store import views

    with connected(database_url, schema) as platform:
        full_id = find_job(platform.conn, namespace, job_id)
        if wait:
            from rmhdag.cli.waiting import wait_for_job

            wait_for_job(platform, namespace, full_id, timeout_seconds=timeout, as_json=as_json)
        if node is not None:
            show_node(platform, namespace, full_id, node, as_json=as_json)
            return
        if events:
            show_events(platform, full_id, as_json=as_json)
            return
        found = views.job(platform.conn, namespace, full_id)
        picture = (
            None if found is None else take_picture(platform.conn, namespace, full_id, order_of(platform.conn, found))
        )
        if picture is None:
            raise CommandFailed(f"job {full_id} is gone", code=ExitCode.NOT_FOUND)
        reasons = explain(platform, picture)
        reruns = views.reruns_of(platform.conn, full_id, picture.job["root_job_id"])
    if as_json:
        facts = picture.as_json()
        for line in facts["nodes"]:
            line["reason"] = facts_of(reasons.get(line["node_id"]))
        emit_json({**facts, "reruns": [{"job_id": other, "status": status} for other, status in reruns]})
        return
    emit(describe(picture, reasons, reruns))
    if picture.status == "failed":
        say(f"`rmhdag retry {full_id}` runs what failed again, as a new job")


def explain(platform: Platform, picture: JobPicture) -> dict[str, Reason]:
    """Why nodes that could run do not, by node."""
    from rmhdag.api.views.reasons import MOST_EXPLAINED_NODES, explain_nodes

    waiting = [node.node_id for node in picture.nodes if not node.is_settled]
    if picture.has_ended or not waiting or picture.node_counts["total"] > MOST_EXPLAINED_NODES:
        return {}
    return explain_nodes(platform.conn, picture.job, waiting, platform.settings.orphan_seconds)


def facts_of(reason: Reason | None) -> dict[str, Any] | None:
    return None if reason is None else reason.model_dump(mode="json", exclude={"node_id"})


def describe(picture: JobPicture, reasons: dict[str, Reason], reruns: list[tuple[str, str]]) -> str:
    from rmhdag.cli.tables import cut, show_duration, show_moment, show_status
    from rmhdag.cli.waiting import as_text

    job = picture.job
    ending = f" (ending as {job['ending']})" if job["ending"] and not picture.has_ended else ""
    facts: list[tuple[str, str | None]] = [
        ("job", job["job_id"]),
        ("workflow", f"{job['workflow_id']} v{job['workflow_version']}"),
        ("status", show_status(picture.status) + ending),
        ("error", job["error_message"]),
        ("submitted", f"{show_moment(job['created_at'])} by {job['submitted_by']}"),
        ("took", show_duration(job["duration_seconds"]) or None),
        ("parameters", cut(as_text(job["input_params"]), 200)),
        ("rerun of", job["rerun_of"]),
        ("reruns", ", ".join(f"{other} ({status})" for other, status in reruns) or None),
        ("parent", job["parent_job_id"]),
        ("correlation", job["correlation_id"]),
        ("owner", describe_owner(job) if not picture.has_ended else None),
    ]
    lines = [f"{name:<12} {value}\n" for name, value in facts if value]
    if not picture.nodes and not picture.has_ended:
        lines.append(f"{'waits':<12} The job waits for an orchestrator to start it.\n")
    if picture.nodes:
        lines.append("\n" + describe_nodes(picture, reasons))
    if job["result_data"] is not None:
        lines.append("\nresult\n" + as_text(job["result_data"]))
    return "".join(lines)


def describe_owner(job: dict[str, Any]) -> str:
    if job["owner_id"] is None:
        return "nobody yet"
    beat = job["owner_heartbeat_at"]
    silent = "gone" if beat is None else f"heard {(job['seen_at'] - beat).total_seconds():.1f}s ago"
    return f"{job['owner_id']} (epoch {job['owner_epoch']}, {silent})"


def describe_nodes(picture: JobPicture, reasons: dict[str, Reason]) -> str:
    from rmhdag.cli.live_view import describe_children
    from rmhdag.cli.tables import lay_out, show_duration, show_status

    rows = []
    for node in picture.nodes:
        told = reasons.get(node.node_id)
        why = " ".join((node.line.error_message or "").split())
        if told is not None and told.reason_code != "runs":
            why = " ".join(part for part in (told.reason_text, told.hint) if part)
        if node.taken_over:
            why = "taken over from the job that was rerun"
        elif node.total is not None:
            why = f"{describe_children(node, bar=False)} {why}".rstrip()
        ran = node.line.started_at is not None or node.line.dispatched_at is not None
        rows.append(
            (
                node.node_id,
                node.type,
                show_status(node.status),
                show_duration(node.line.duration_seconds) if ran else "",
                f"{node.line.attempt}/{max(node.line.max_retries + 1, node.line.attempt)}",
                why,
            )
        )
    return lay_out(("NODE", "TYPE", "STATUS", "TOOK", "ATTEMPT", "WHY"), rows)


def show_node(platform: Platform, namespace: str, job_id: str, node_id: str, *, as_json: bool) -> None:
    from rmhdag.api.views.pictures import ENDED, SETTLED, read_definition
    from rmhdag.api.views.reasons import explain_nodes
    from rmhdag.cli.waiting import as_text
    from rmhdag.store import views

    job = views.job(platform.conn, namespace, job_id)
    found = views.node(platform.conn, job_id, node_id)
    if found is None:
        from rmhdag.workflow.problems import did_you_mean

        known = [] if job is None else read_definition(platform.conn, job).nodes
        raise CommandFailed(
            f"job {job_id} has no node {node_id!r}", remedy=did_you_mean(node_id, known), code=ExitCode.NOT_FOUND
        )
    waits = job is not None and job["status"] not in ENDED and found["status"] not in SETTLED
    reason = None
    if job is not None and waits:
        reason = explain_nodes(platform.conn, job, [node_id], platform.settings.orphan_seconds).get(node_id)
    if as_json:
        emit_json({**found, "reason": facts_of(reason)})
        return
    for name, value in found.items():
        if value is not None and name not in ("input_params", "output", "metrics"):
            emit(f"{name:<20} {value}\n")
    if reason is not None:
        emit(f"{'why':<20} {' '.join(part for part in (reason.reason_text, reason.hint) if part)}\n")
    emit("\nparameters\n" + as_text(found["input_params"]))
    if found["output"] is not None:
        emit("\noutput\n" + as_text(found["output"]))


def show_events(platform: Platform, job_id: str, *, as_json: bool) -> None:
    from rmhdag.cli.tables import show_moment
    from rmhdag.models.api.event_messages import message
    from rmhdag.store import views

    events: list[dict[str, Any]] = []
    told = ("event_type", "node_id", "event_data", "error_message")
    while page := views.timeline(platform.conn, job_id, after=events[-1]["seq"] if events else 0, limit=1000):
        events += [{**event, "message": message(*(event[name] for name in told))} for event in page]
    if as_json:
        emit_json({"job_id": job_id, "events": events})
        return
    for event in events:
        emit(f"{event['seq']:>5}  {show_moment(event['created_at'])}  {event['message']}\n")

"""`rmhdag job`: one job with its nodes, what waits and why, or one node of it, or its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from rmhdag.cli.data_errors import describe_cause, describe_failed_children, describe_warnings
from rmhdag.cli.doors import connected
from rmhdag.cli.label import describe_labels
from rmhdag.cli.live_view import describe_children
from rmhdag.cli.next_steps import steps_after_failure
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import JobArgument, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.short_values import lay_out_values
from rmhdag.cli.submit import TimeoutOption
from rmhdag.cli.tables import cut, indent_lines, lay_out, lay_out_facts, show_duration, show_moment, show_status
from rmhdag.cli.waiting import as_facts, as_text, wait_for_job
from rmhdag.models.api.overviews import JobOverview

# What a screen shows beside the nodes.
MOST_RESULT_LINES = 40
MOST_RESULT_CHARACTERS = 4_000


def register(app: typer.Typer) -> None:
    app.command(short_help="Show a job: its nodes, and what they wait for.")(job)


def job(
    job_id: JobArgument,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NODE", help="Show parameters and output of one node.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Show the events of the job, oldest first.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the job's progress until it ends.")] = False,
    timeout: TimeoutOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
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
    with connected(url, database_url, schema, namespace=namespace) as platform:
        full_id = platform.find_job(job_id)
        if wait:
            wait_for_job(platform, full_id, timeout_seconds=timeout, as_json=as_json)
        if node is not None:
            show_node(platform, full_id, node, as_json=as_json)
            return
        if events:
            show_events(platform, full_id, as_json=as_json)
            return
        overview = platform.overview(full_id, reasons=True)
        overview.result_data = platform.whole(full_id, overview.result_data)
        children = {} if as_json else describe_failed_children(platform, overview)
    if as_json:
        emit_json(as_facts(overview, with_reasons=True))
        return
    emit(describe(overview, children))
    if overview.status == "failed":
        say("Next:")
        for step in steps_after_failure(full_id, overview.error):
            say(f"  {step.command}    {step.meaning}")


def describe(job: JobOverview, failed_children: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    ending = f" (ending as {job.ending})" if job.ending and not job.has_ended else ""
    facts: list[tuple[str, str | None]] = [
        ("job", job.job_id),
        ("workflow", f"{job.workflow_id} v{job.workflow_version}"),
        ("status", show_status(job.status) + ending),
        ("error", job.error_message),
        ("cause", None if job.error is None else describe_cause(job.error)),
        *[("warning", warning) for warning in describe_warnings(job.warnings)],
        ("submitted", f"{show_moment(job.created_at)} by {job.submitted_by}"),
        ("took", show_duration(job.duration_seconds) or None),
        ("parameters", cut(as_text(job.input_params), 200)),
        ("labels", describe_labels(job.labels)),
        ("rerun of", job.rerun_of),
        ("reruns", ", ".join(f"{other.job_id} ({other.status})" for other in job.reruns) or None),
        ("parent", job.parent_job_id),
        ("correlation", job.correlation_id),
        ("owner", describe_owner(job) if not job.has_ended else None),
    ]
    lines = [lay_out_facts(((name, value) for name, value in facts if value), 12)]
    if not job.nodes and not job.has_ended:
        lines.append(f"{'waits':<12} The job waits for an orchestrator to start it.\n")
    if job.nodes:
        lines.append("\n" + describe_nodes(job))
    for node_id, children in failed_children.items():
        lines.append(f"\nfailed children of {node_id}\n" + "".join(f"  {line}\n" for _, line in children))
    if job.result_data is not None:
        text = as_text(job.result_data)
        is_long = text.count("\n") > MOST_RESULT_LINES or len(text) > MOST_RESULT_CHARACTERS
        result = lay_out_values(job.result_data) if is_long and isinstance(job.result_data, dict) else text
        lines.append(f"\nresult\n{result}")
    return "".join(lines)


def describe_owner(job: JobOverview) -> str:
    if job.owner_id is None:
        return "nobody yet"
    beat = job.owner_heartbeat_at
    silent = "gone" if beat is None else f"heard {(job.seen_at - beat).total_seconds():.1f}s ago"
    return f"{job.owner_id} (epoch {job.owner_epoch}, {silent})"


def describe_nodes(job: JobOverview) -> str:
    rows = []
    for node in job.nodes:
        reason = node.reason
        why = " ".join((node.error_message or "").split())
        if reason is not None and (reason.reason_code != "runs" or why):
            why = " ".join(part for part in (reason.reason_text, reason.hint) if part)
        if node.lease_losses and not node.is_settled:
            # Otherwise its time begins anew, and nobody sees why.
            why = f"{describe_losses(node.lease_losses)} {why}".rstrip()
        if node.taken_over:
            why = "taken over from the job that was rerun"
        elif node.children is not None:
            why = f"{describe_children(node, node.children, bar=False)} {why}".rstrip()
        ran = node.started_at is not None or node.dispatched_at is not None
        rows.append(
            (
                node.node_id,
                node.type,
                show_status(node.status),
                show_duration(node.duration_seconds) if ran else "",
                f"{node.attempt}/{max(node.max_retries + 1, node.attempt)}",
                why,
            )
        )
    return lay_out(("NODE", "TYPE", "STATUS", "TOOK", "ATTEMPT", "WHY"), rows)


def describe_losses(losses: int) -> str:
    times = "once" if losses == 1 else f"{losses} times"
    return f"Its worker was lost {times}; the task is run again."


def show_node(platform: Operations, job_id: str, node_id: str, *, as_json: bool) -> None:
    node = platform.node(job_id, node_id)
    node.output = platform.whole(job_id, node.output)
    if as_json:
        emit_json(node.model_dump(exclude={"reason": {"node_id"}}))
        return
    apart = {"input_params", "output", "metrics", "children", "reason", "error", "warnings"}
    facts = [(name, value) for name, value in node.model_dump(exclude=apart).items() if value is not None]
    if node.error is not None:
        facts.append(("cause", describe_cause(node.error)))
    facts += [("warning", warning) for warning in describe_warnings(node.warnings)]
    if node.reason is not None:
        facts.append(("why", " ".join(part for part in (node.reason.reason_text, node.reason.hint) if part)))
    emit(lay_out_facts(facts, 20))
    emit("\nparameters\n" + as_text(node.input_params))
    if node.output is not None:
        emit("\noutput\n" + as_text(node.output))


def show_events(platform: Operations, job_id: str, *, as_json: bool) -> None:
    events = list(platform.events(job_id))
    if as_json:
        names = {"seq": "event_id", "created_at": "timestamp", "event_type": "event_type", "event_status": "status"}
        same = ("node_id", "task_id", "duration_ms", "source_app", "error_message")
        names |= {name: name for name in same} | {"event_data": "data", "message": "message"}
        rows = [{name: getattr(event, field) for name, field in names.items()} for event in events]
        emit_json({"job_id": job_id, "events": rows})
        return
    for event in events:
        emit(f"{event.event_id:>5}  {show_moment(event.timestamp)}  {indent_lines(event.message, 7)}\n")

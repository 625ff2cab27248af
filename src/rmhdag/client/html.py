"""A job for notebooks: a line of facts and, where it is known, its picture with the states of its nodes."""

from __future__ import annotations

from html import escape

from rmhdag.models.api.data_errors import WarningView
from rmhdag.models.api.jobs import JobView
from rmhdag.models.api.nodes import GraphState, GraphStructure, JobGraph

COLOURS = {
    "pending": "#d0d7de",
    "ready": "#d0d7de",
    "dispatched": "#9ecbff",
    "running": "#54a3ff",
    "completed": "#4ac26b",
    "failed": "#f47067",
    "skipped": "#eaeef2",
    "cancelled": "#d4a72c",
}


def describe_job(job_id: str, view: JobView | None, graph: JobGraph | None) -> str:
    name = "" if view is None else f"{escape(view.workflow_id)} v{view.workflow_version} "
    status = "not looked at yet" if view is None else view.status.value
    head = f"<b>{name}</b><code>{escape(job_id)}</code> {escape(status)}"
    error = "" if view is None or not view.error_message else f"<pre>{escape(view.error_message)}</pre>"
    warnings = "" if view is None else describe_warnings(view.warnings)
    picture = "" if graph is None or graph.structure is None else draw(graph.structure, graph.states)
    return f'<div class="rmhdag-job">{head}{error}{warnings}{picture}</div>'


def describe_warnings(warnings: list[WarningView]) -> str:
    lines = [
        f"<li>{warning.count} × <code>{escape(warning.code)}</code> {escape(warning.message)}</li>"
        for warning in warnings
    ]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def draw(structure: GraphStructure, states: dict[str, GraphState]) -> str:
    parts = []
    for edge in structure.edges:
        points = " ".join(f"{x},{y}" for x, y in edge.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#8c959f"/>')
    for node in structure.nodes:
        state = states.get(node.id)
        status = "pending" if state is None else state.status.value
        title = f"{node.label}: {status}"
        if state is not None and state.children is not None:
            title += f" {state.children.completed}/{state.children.total}"
        box = f'x="{node.x}" y="{node.y}" width="{node.width}" height="{node.height}"'
        parts.append(
            f'<g><title>{escape(title)}</title><rect {box} rx="4" fill="{COLOURS[status]}" stroke="#57606a"/>'
            f'<text x="{node.x + node.width / 2:g}" y="{node.y + node.height / 2:g}" text-anchor="middle" '
            f'dominant-baseline="middle" font-family="sans-serif" font-size="12">{escape(node.label)}</text></g>'
        )
    size = f'viewBox="0 0 {structure.width} {structure.height}" style="max-width:{structure.width}px;width:100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{"".join(parts)}</svg>'

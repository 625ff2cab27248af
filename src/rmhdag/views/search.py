"""Anything by its id or the beginning of it: jobs, nodes, tasks, requests, assets, workflows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rmhdag.models.api.search import HitKind, SearchHit, SearchHits
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.job_lists import LAST_LETTER, JobFilters, list_jobs
from rmhdag.views.workflows import list_workflows

SQL = load_queries(__file__)

MOST_HITS = 8
# Among so many of the newest assets a platform's reference is looked for.
NEWEST_ASSETS = 5_000
# `<job>/<node>`, `<job>-<the rest of a task's id>`.
WITHIN_JOB = re.compile(r"([0-9a-f]{32})(?:/(.+)|(-[0-9a-f-]*))")


def search(conn: Conn, namespace: str, text: str) -> SearchHits:
    parameters = {
        "namespace": namespace,
        "q": text,
        "q_end": text + LAST_LETTER,
        "most": MOST_HITS,
        "newest": NEWEST_ASSETS,
    }
    hits = [*_nodes(conn, namespace, text)]
    for job in list_jobs(conn, namespace, JobFilters(text=text, limit=MOST_HITS)):
        note = f"{job.job_id} by {job.submitted_by}"
        title = f"{job.workflow_id} v{job.workflow_version}"
        hits.append(SearchHit(kind=HitKind.JOB, id=job.job_id, title=title, note=note, status=job.status))
    for workflow in list_workflows(conn, namespace, text=text, limit=MOST_HITS):
        note = f"version {workflow.version}"
        hits.append(
            SearchHit(
                kind=HitKind.WORKFLOW, id=workflow.workflow_id, title=workflow.name or workflow.workflow_id, note=note
            )
        )
    for asset_id, platform_id, kind, status, refs in conn.execute(SQL["assets"], parameters):
        title = " · ".join(str(value) for value in refs.values()) or asset_id
        note = f"{kind} of {platform_id}, {asset_id}"
        hits.append(SearchHit(kind=HitKind.ASSET, id=asset_id, title=title, note=note, status=status))
    for request_id, client_id, workflow_id, job_id in conn.execute(SQL["requests"], parameters):
        note = f"{workflow_id} for {client_id}"
        hits.append(SearchHit(kind=HitKind.REQUEST, id=request_id, title=request_id, note=note, job_id=job_id))
    for workflow_id, node_id in conn.execute(SQL["nodes_of_workflows"], parameters):
        note = f"in workflow {workflow_id}"
        hits.append(SearchHit(kind=HitKind.NODE, id=node_id, title=node_id, note=note, workflow_id=workflow_id))
    return SearchHits(hits=hits)


def _nodes(conn: Conn, namespace: str, text: str) -> Iterator[SearchHit]:
    within = WITHIN_JOB.fullmatch(text)
    if within is None:
        return
    job_id, node, _ = within.groups()
    # A letter that no id has, where that kind of id is not meant.
    parameters = {
        "namespace": namespace,
        "job_id": job_id,
        "node": node or LAST_LETTER,
        "task": LAST_LETTER if node else text,
        "most": MOST_HITS,
    }
    for node_id, task_id, status, workflow_id in conn.execute(SQL["nodes_of_job"], parameters):
        kind, found_id = (HitKind.NODE, node_id) if node else (HitKind.TASK, task_id)
        yield SearchHit(
            kind=kind,
            id=found_id,
            title=node_id,
            note=f"in a job of {workflow_id}",
            status=status,
            job_id=job_id,
            node_id=node_id,
            workflow_id=workflow_id,
        )

"""Runs a handler once, for its developer: a job with one node, through the same queue and worker as any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmhdag.services.registrations import stored_form
from rmhdag.services.submissions import job_row
from rmhdag.store import jobs, workflows
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.workflow.definition import InputDefinition, RetryRule, TaskNode, TaskSpec, WorkflowDefinition

# Marks the job in lists; the definitions themselves are listed nowhere.
TRIAL_WORKFLOW = "rmhdag-handler-trial"
NODE = "trial"


def begin_trial(
    conn: Conn,
    handler: str,
    params: Mapping[str, Any],
    *,
    queue: str,
    timeout_seconds: int,
    namespace: str,
    submitted_by: str,
) -> str:
    """Returns the id of the job. Parameters are data: templates in them are never evaluated."""
    names = list(params)
    definition = WorkflowDefinition(
        workflow_id=TRIAL_WORKFLOW,
        name=f"Trial of {handler}",
        inputs={"values": InputDefinition(type="array", required=True)},
        nodes={
            NODE: TaskNode(
                task=TaskSpec(
                    handler=handler,
                    queue=queue,
                    params={name: f"{{{{ inputs.values[{place}] }}}}" for place, name in enumerate(names)},
                    timeout_seconds=timeout_seconds,
                    retry=RetryRule(max_attempts=1),
                )
            )
        },
    )
    stored = stored_form(definition)
    row = job_row(
        new_id(),
        stored,
        {"values": [params[name] for name in names]},
        namespace=namespace,
        submitted_by=submitted_by,
        metadata={"handler_trial": handler},
    )
    with conn.transaction():
        workflows.keep_definition(conn, namespace, stored, submitted_by)
        jobs.insert_jobs(conn, [row], "api")
    return str(row["job_id"])

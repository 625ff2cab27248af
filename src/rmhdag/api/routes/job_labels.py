"""The labels of a job, changed after its submission."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Operator
from rmhdag.api.job_paths import is_id
from rmhdag.api.routes.jobs import JobId
from rmhdag.models.api.jobs import JobLabels, LabelChanges
from rmhdag.services.labels import change_labels
from rmhdag.services.reruns import UnknownJobError

router = APIRouter(prefix="/api/v1", tags=["jobs"])


@router.post("/jobs/{job_id}/labels")
def label_job(job_id: JobId, body: LabelChanges, caller: Operator, api: ApiContext) -> JobLabels:
    """Put labels on a job and take others off, whatever its status. Repeating it is no error; the audit trail has
    who did it.
    """
    if not is_id(job_id):
        raise UnknownJobError(job_id)
    with api.connection() as conn:
        labelled = change_labels(
            conn, job_id, put=body.put, remove=body.remove, issued_by=caller.name, namespace=caller.namespace
        )
    return JobLabels(job_id=job_id, labels=labelled.labels, changed=labelled.is_changed)

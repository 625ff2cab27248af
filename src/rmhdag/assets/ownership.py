"""Who may change which field of an existing asset or revision. A test compares all SQL with this table."""

from __future__ import annotations

from enum import StrEnum


class Writer(StrEnum):
    """`command`: of people (submit, roll back, delete, approve, unpublish). `orchestrator`: results of jobs."""

    COMMAND = "command"
    ORCHESTRATOR = "orchestrator"


# A command that creates a revision sets its number and its initial status; the rest follows from its job.
ASSET_FIELDS = {
    "latest_revision": {Writer.COMMAND},
    "deleted_at": {Writer.COMMAND},
    "deleted_by": {Writer.COMMAND},
    # An approval node of a job decides too, and a new revision begins its own review.
    "approval_state": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "classification": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "current_job_id": {Writer.ORCHESTRATOR},
    "processing_status": {Writer.ORCHESTRATOR},
    "current_revision": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "content_hash": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "updated_at": {Writer.COMMAND, Writer.ORCHESTRATOR},
}
REVISION_FIELDS = {
    "status": {Writer.ORCHESTRATOR},
    "content_hash": {Writer.ORCHESTRATOR},
    "outputs": {Writer.ORCHESTRATOR},
    "footprint": {Writer.ORCHESTRATOR},
    "made_by": {Writer.ORCHESTRATOR},
    "catalogue": set(),
    "error_message": {Writer.ORCHESTRATOR},
    "error": {Writer.ORCHESTRATOR},
    "warnings": {Writer.ORCHESTRATOR},
    "version_label": set(),
    "review_state": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "clearance": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "decided_by": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "decided_at": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "decision_reason": {Writer.COMMAND, Writer.ORCHESTRATOR},
    "completed_at": {Writer.ORCHESTRATOR},
    "updated_at": {Writer.COMMAND, Writer.ORCHESTRATOR},
    # By a command, or by a node of a workflow that asks for it.
    "unpublished_at": {Writer.COMMAND, Writer.ORCHESTRATOR},
}
# The identity of an asset never changes.
IMMUTABLE = frozenset({"namespace", "asset_id", "platform_id", "platform_refs", "kind", "revision", "job_id", "source"})

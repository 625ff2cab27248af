"""Who may change which field of an asset or a revision, once it is there. A test holds all SQL against this."""

from __future__ import annotations

from enum import StrEnum


class Writer(StrEnum):
    """`command`: what people ask for (submit, roll back, delete, approve). `orchestrator`: what jobs bring about."""

    COMMAND = "command"
    ORCHESTRATOR = "orchestrator"


# A command that makes a revision says which one is the newest and that it has not begun; the rest follows its job.
ASSET_FIELDS = {
    "latest_revision": {Writer.COMMAND},
    "deleted_at": {Writer.COMMAND},
    "deleted_by": {Writer.COMMAND},
    "approval_state": {Writer.COMMAND},
    "classification": {Writer.COMMAND},
    "current_job_id": {Writer.ORCHESTRATOR},
    "processing_status": {Writer.ORCHESTRATOR},
    "current_revision": {Writer.ORCHESTRATOR},
    "content_hash": {Writer.ORCHESTRATOR},
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
    "completed_at": {Writer.ORCHESTRATOR},
    "updated_at": {Writer.ORCHESTRATOR},
}
# Whose asset it is never changes.
IMMUTABLE = frozenset({"namespace", "asset_id", "platform_id", "platform_refs", "kind", "revision", "job_id", "source"})

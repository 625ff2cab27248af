"""When an asset gets its next revision. Numbers have no gaps, because the caller holds the lock on the asset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rmhdag.models.assets import OPEN_STATUSES, AssetKind, ProcessingStatus
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.states import JobStatus

PROCESSED = "processed"
SUPERSEDE = "Wait for its end, or submit with `supersede: true`, which cancels it."
OTHER_REFS = "Submit it with other platform_refs, or choose a workflow that makes the same."


class AssetConflict(Refusal):
    """The command does not fit the current state of the asset."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(Kind.CONFLICT, code, message, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetState:
    """An asset and its newest revision, while its row is locked.

    `is_ending`: the revision's job is being stopped. `request_id` is the oldest request for that revision;
    `is_of_others`: it is not shown to the sender of the new order.
    """

    asset_id: str
    kind: AssetKind
    is_deleted: bool
    latest_revision: int
    status: ProcessingStatus
    params_digest: str | None = None
    job_id: str | None = None
    request_id: str | None = None
    is_of_others: bool = False
    is_ending: bool = False

    @property
    def is_busy(self) -> bool:
        return self.status in OPEN_STATUSES and not self.is_ending


@dataclass(frozen=True, slots=True)
class NextRevision:
    """`supersedes` is the job that the new revision cancels."""

    revision: int
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """The revision in progress is exactly the requested one."""

    revision: int
    job_id: str


def decide_submission(
    asset: AssetState, kind: AssetKind, params_digest: str, *, supersede: bool
) -> NextRevision | Join:
    """Decide about a submission for an existing asset. A deleted asset is restored by its next revision."""
    if asset.kind is not kind:
        raise AssetConflict(
            "asset_kind_differs",
            f"asset {asset.asset_id} is a {asset.kind}, and this workflow makes a {kind}",
            OTHER_REFS,
        )
    following = asset.latest_revision + 1
    if not asset.is_busy:
        return NextRevision(following)
    if asset.params_digest == params_digest and asset.job_id is not None:
        return Join(asset.latest_revision, asset.job_id)
    if supersede:
        return NextRevision(following, asset.job_id)
    whose = f"request {asset.request_id}" if asset.request_id is not None else f"job {asset.job_id}"
    if asset.is_of_others:
        whose = "another order"
    raise AssetConflict(
        "asset_processing",
        f"{whose} is processing revision {asset.latest_revision} of asset {asset.asset_id} with other parameters",
        SUPERSEDE,
    )


def check_free(asset: AssetState, what: str) -> None:
    """Refuse if the asset is deleted or in progress."""
    if asset.is_deleted:
        raise AssetConflict(
            "asset_deleted", f"asset {asset.asset_id} is deleted; {what}", "A new submission for it brings it back."
        )
    check_idle(asset, what)


def check_idle(asset: AssetState, what: str) -> None:
    if asset.is_busy:
        raise AssetConflict(
            "asset_processing",
            f"revision {asset.latest_revision} of asset {asset.asset_id} is being processed; {what}",
            f"Wait for its end, or cancel job {asset.job_id}.",
        )


def check_rollback(
    asset: AssetState, revision: int, status: ProcessingStatus | None, current: int | None, source: str | None
) -> int:
    """The number of the revision that takes the old one's content. `source` is that of the current one: a repeated
    rollback finds that the content is current already."""
    check_free(asset, "it cannot be rolled back now")
    if status is None:
        raise AssetConflict(
            "unknown_revision",
            f"asset {asset.asset_id} has no revision {revision}",
            f"Its revisions are 1 to {asset.latest_revision}.",
        )
    if status is not ProcessingStatus.COMPLETED:
        raise AssetConflict(
            "revision_not_completed",
            f"revision {revision} of asset {asset.asset_id} is {status}, so it has no content to roll back to",
            "Choose a completed one.",
        )
    if revision == current or source == rollback_source(revision):
        raise AssetConflict(
            "revision_is_current",
            f"the content of revision {revision} of asset {asset.asset_id} is the current one already",
            "Choose another one.",
        )
    return asset.latest_revision + 1


def check_files_kept(asset_id: str, revision: int, *, is_unpublished: bool, what: str) -> None:
    """Refuse what needs the files of a revision that was unpublished."""
    if is_unpublished:
        raise AssetConflict(
            "revision_unpublished",
            f"revision {revision} of asset {asset_id} is unpublished and its files are deleted; {what}",
            "Submit the asset again, or rerun its job with `everything`.",
        )


def check_tables_kept(asset_id: str, revision: int, *, is_lost: bool) -> None:
    """Refuse to roll back to a revision whose tables are gone."""
    if is_lost:
        raise AssetConflict(
            "tables_dropped",
            f"tables of revision {revision} of asset {asset_id} were dropped, because only so many earlier revisions "
            "are kept (RMHDAG_TABLE_REVISIONS); it cannot be rolled back to",
            "Submit the asset again with the file of that revision.",
        )


def rollback_source(revision: int) -> str:
    return f"rollback of {revision}"


def status_after(job: JobStatus, *, is_latest: bool) -> ProcessingStatus:
    """The status of a revision, from the status of its job."""
    if job is JobStatus.CANCELLED and not is_latest:
        return ProcessingStatus.SUPERSEDED
    return _STATUS_OF[job]


_STATUS_OF = {
    JobStatus.PENDING: ProcessingStatus.PENDING,
    JobStatus.RUNNING: ProcessingStatus.PROCESSING,
    JobStatus.COMPLETED: ProcessingStatus.COMPLETED,
    JobStatus.FAILED: ProcessingStatus.FAILED,
    JobStatus.CANCELLED: ProcessingStatus.CANCELLED,
}


def params_digest_of(workflow_id: str, params: Mapping[str, Any], version_label: str | None = None) -> str:
    """Digest of what a revision is made from: workflow, parameters with defaults, and the version it is to be. Equal
    digests mean the same revision.
    """
    content = [workflow_id, params, *([] if version_label is None else [version_label])]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash_of(files: Iterable[tuple[str, str]]) -> str | None:
    """Digest of the content of a revision: its files with the role `data`, as (role, sha256); None without any."""
    lines = sorted(f"{role} {sha256}" for role, sha256 in files if role == "data")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None

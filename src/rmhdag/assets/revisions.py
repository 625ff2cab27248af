"""When an asset gets its next revision, and when it does not. Numbers have no gaps: whoever decides holds the asset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rmhdag.models.assets import OPEN_STATUSES, AssetKind, ProcessingStatus
from rmhdag.models.states import JobStatus

PROCESSED = "processed"
SUPERSEDE = "Wait for its end, or submit with `supersede: true`, which cancels it."
OTHER_REFS = "Submit it with other platform_refs, or choose a workflow that makes the same."


class AssetConflict(Exception):
    """What is asked for does not fit how the asset stands; `code` is a word for programs."""

    def __init__(self, code: str, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetState:
    """An asset and its newest revision, while its row is locked.

    `is_ending`: the revision's job is being stopped. `request_id` is the oldest request for that revision.
    """

    asset_id: str
    kind: AssetKind
    is_deleted: bool
    latest_revision: int
    status: ProcessingStatus
    params_digest: str | None = None
    job_id: str | None = None
    request_id: str | None = None
    is_ending: bool = False

    @property
    def is_busy(self) -> bool:
        return self.status in OPEN_STATUSES and not self.is_ending


@dataclass(frozen=True, slots=True)
class NextRevision:
    """`supersedes` is the job to cancel for it."""

    revision: int
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """The revision under way is just what was asked for."""

    revision: int
    job_id: str


def decide_submission(
    asset: AssetState, kind: AssetKind, params_digest: str, *, supersede: bool
) -> NextRevision | Join:
    """For an asset that is there. A deleted one comes back with its next revision."""
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
    raise AssetConflict(
        "asset_processing",
        f"{whose} is processing revision {asset.latest_revision} of asset {asset.asset_id} with other parameters",
        SUPERSEDE,
    )


def check_free(asset: AssetState, what: str) -> None:
    """Neither deleted nor under way."""
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
    """The number of the revision that takes the old one's content. `source` is that of the current one: whoever asks
    twice, for want of an answer, has it already."""
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
            f"revision {revision} of asset {asset.asset_id} is {status}: there is nothing to go back to",
            "Choose a completed one.",
        )
    if revision == current or source == rollback_source(revision):
        raise AssetConflict(
            "revision_is_current",
            f"the content of revision {revision} of asset {asset.asset_id} is the current one already",
            "Choose another one.",
        )
    return asset.latest_revision + 1


def rollback_source(revision: int) -> str:
    return f"rollback of {revision}"


def status_after(job: JobStatus, *, is_latest: bool) -> ProcessingStatus:
    """What the state of its job means for a revision."""
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


def params_digest_of(workflow_id: str, params: Mapping[str, Any]) -> str:
    """Of what a job is asked for, defaults filled in: equal digests make the same revision."""
    text = json.dumps([workflow_id, params], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content_hash_of(files: Iterable[tuple[str, str]]) -> str | None:
    """Of the (role, sha256) of a revision's files: those with the role `data` are its content; None without any."""
    lines = sorted(f"{role} {sha256}" for role, sha256 in files if role == "data")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None

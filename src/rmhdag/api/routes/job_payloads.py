"""The values above 64 KB that a job refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.job_paths import check_job
from rmhdag.api.problems import not_found
from rmhdag.api.routes.jobs import JobId
from rmhdag.models.api.nodes import StoredValue
from rmhdag.models.references import SECRET_MEDIA_TYPE
from rmhdag.store import payloads

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
HashPath = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the whole value")]


@router.get("/{job_id}/payloads/{sha256}", response_class=StreamingResponse, responses={200: {"model": StoredValue}})
def get_stored_value(job_id: JobId, sha256: HashPath, caller: Reader, api: ApiContext) -> StreamingResponse:
    """A value that the job's result or an output of its nodes refers to: the JSON itself, of at most 64 MB."""
    with api.connection() as conn:
        check_job(conn, caller.namespace, job_id)
        payload = payloads.find_payload(conn, caller.namespace, sha256)
        if (
            payload is None
            or payload.media_type == SECRET_MEDIA_TYPE
            or not payloads.job_refers_to(conn, caller.namespace, job_id, sha256)
        ):
            raise not_found(f"value {sha256} in job {job_id}")
    return StreamingResponse(
        _chunks(api, caller.namespace, payload),
        media_type=payload.media_type,
        headers={"Content-Length": str(payload.size_bytes)},
    )


def _chunks(api: Api, namespace: str, stored: payloads.StoredPayload) -> Iterator[bytes]:
    """One at a time, and no connection is held while a slow reader takes it."""
    for index in range(stored.chunk_count):
        with api.connection() as conn:
            chunk = payloads.read_chunk(conn, namespace, stored.sha256, index)
        yield chunk or b""

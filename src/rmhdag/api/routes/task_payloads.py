"""Values too large to travel with a task or a result: sent and fetched in chunks of 1 MB, named by their hash."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, WorkerCaller
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.processor_time import run_in_turn
from rmhdag.api.quotas import quota_exceeded
from rmhdag.api.routes.job_payloads import HashPath
from rmhdag.api.worker_desk import holder_of
from rmhdag.models.api.worker_calls import FinishPayload, PayloadReference, StoredPayload
from rmhdag.models.limits import PAYLOAD_CHUNK_BYTES
from rmhdag.store import payloads, quotas

router = APIRouter(prefix="/api/v1/payloads", tags=["worker protocol"])
ChunkPath = Annotated[int, Path(ge=0, lt=payloads.MOST_CHUNKS)]
OCTETS = "application/octet-stream"
BINARY = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}


@router.put(
    "/{sha256}/chunks/{chunk_index}",
    status_code=204,
    openapi_extra={"requestBody": {"required": True, "content": BINARY}},
)
async def write_chunk(
    sha256: HashPath, chunk_index: ChunkPath, request: Request, api: ApiContext, caller: WorkerCaller
) -> Response:
    """Send one chunk of JSON text. Sent again, it replaces what was sent before."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != OCTETS:
        raise Problem(415, "not_octets", f"a chunk is sent as {OCTETS}", pointer="/header/content-type")
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > PAYLOAD_CHUNK_BYTES:
            raise Problem(413, "chunk_too_large", f"a chunk has at most {PAYLOAD_CHUNK_BYTES} bytes")
    await run_in_turn(_write, api, caller, sha256, chunk_index, bytes(data))
    return Response(status_code=204)


def _write(api: Api, caller: Caller, digest: str, chunk_index: int, data: bytes) -> None:
    most = api.quotas.limits(caller.namespace).upload_bytes
    with api.worker_pool.connection() as conn:
        if not payloads.write_chunk(conn, caller.namespace, holder_of(caller), digest, chunk_index, data, most):
            raise quota_exceeded("upload_bytes", most, quotas.unfinished_bytes(conn, caller.namespace))


@router.post("/{sha256}")
def finish_payload(sha256: HashPath, body: FinishPayload, api: ApiContext, caller: WorkerCaller) -> PayloadReference:
    """All chunks were sent. Answers with the reference that stands for the value from now on."""
    with api.worker_pool.connection() as conn:
        try:
            reference = payloads.finish_upload(
                conn, caller.namespace, holder_of(caller), sha256, body.size_bytes, body.chunk_count
            )
        except payloads.UploadRefused as error:
            raise Problem(
                422, "payload_refused", str(error), remedy="Send all chunks again, then this.", pointer="/size_bytes"
            ) from None
    return PayloadReference(**asdict(reference))


@router.get("/{sha256}")
def payload(sha256: HashPath, api: ApiContext, caller: WorkerCaller) -> StoredPayload:
    """How large a value is, and of how many chunks."""
    with api.worker_pool.connection() as conn:
        stored = payloads.keep_payload(conn, caller.namespace, sha256)
    if stored is None:
        raise not_found("payload of that hash")
    return StoredPayload(**stored._asdict())


@router.get(
    "/{sha256}/chunks/{chunk_index}",
    status_code=200,
    response_class=Response,
    responses={200: {"content": BINARY, "description": "The bytes of the chunk"}},
)
def read_chunk(sha256: HashPath, chunk_index: ChunkPath, api: ApiContext, caller: WorkerCaller) -> Response:
    """Fetch one chunk."""
    with api.worker_pool.connection() as conn:
        chunk = payloads.read_chunk(conn, caller.namespace, sha256, chunk_index)
    if chunk is None:
        raise not_found("chunk of that number")
    return Response(chunk, media_type=OCTETS)

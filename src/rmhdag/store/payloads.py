"""Values too large to stand inline: stored once under their hash, in chunks."""

from __future__ import annotations

import threading
from collections.abc import Collection
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.json_values import NotJsonError, check_json
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import PAYLOAD_BYTES, PAYLOAD_CHUNK_BYTES
from rmhdag.models.references import (
    PAYLOAD_MEDIA_TYPE,
    Reference,
    holder_of_payload,
    references_in_text,
)
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
NO_LIMIT = 2**53
MOST_CHUNKS = PAYLOAD_BYTES // PAYLOAD_CHUNK_BYTES
_looking = threading.Lock()


class UploadRefused(Exception):
    """What was uploaded is not what was announced."""


class StoredPayload(NamedTuple):
    sha256: str
    size_bytes: int
    media_type: str
    chunk_count: int


@commit_site
def write_json(
    conn: Conn, namespace: str, holder: str | None, text: bytes, media_type: str = PAYLOAD_MEDIA_TYPE
) -> Reference:
    """Store JSON text for a holder and return its reference; the same text again is the same payload.

    Without a holder it is kept for a day: `use_reported` says later whose it is.

    Chunk by chunk, each a statement of its own outside any pipeline: one that is too large for the socket's buffers
    would hang there. A payload that is there already is not sent again.
    """
    digest = sha256(text).hexdigest()
    with conn.transaction():
        if keep_payload(conn, namespace, digest) is None:
            chunk_count = max(1, -(-len(text) // PAYLOAD_CHUNK_BYTES))
            for index in range(chunk_count):
                chunk = {
                    "namespace": namespace,
                    "sha256": digest,
                    "chunk_index": index,
                    "chunk_count": chunk_count,
                    "size_bytes": len(text),
                    "media_type": media_type,
                    "data": text[index * PAYLOAD_CHUNK_BYTES : (index + 1) * PAYLOAD_CHUNK_BYTES],
                }
                conn.execute(SQL["insert_payload"], chunk)
            add_uses(
                conn, namespace, holder_of_payload(digest), [reference.sha256 for reference in references_in_text(text)]
            )
        if holder is not None:
            add_uses(conn, namespace, holder, [digest])
    return Reference(digest, len(text), media_type)


def add_uses(conn: Conn, namespace: str, holder: str, digests: Collection[str]) -> None:
    """The holder needs these payloads. Done again, it changes nothing."""
    if digests:
        parameters = {"namespace": namespace, "holder": holder, "digests": sorted(set(digests))}
        conn.execute(SQL["add_uses"], parameters)


def copy_uses(conn: Conn, namespace: str, from_holder: str, to_holder: str) -> None:
    """The second holder needs the same payloads: a rerun stands on the outputs of the job before."""
    conn.execute(SQL["copy_uses"], {"namespace": namespace, "from_holder": from_holder, "to_holder": to_holder})


def use_reported(conn: Conn, namespace: str, digests_by_task: Collection[tuple[str, str]]) -> None:
    """Payloads of tasks that are about to be reported, as (task id, hash): their jobs need them from now on."""
    if digests_by_task:
        parameters = {
            "namespace": namespace,
            "tasks": [task_id for task_id, _ in digests_by_task],
            "digests": [digest for _, digest in digests_by_task],
        }
        conn.execute(SQL["use_reported"], parameters)


def keep_payload(conn: Conn, namespace: str, digest: str) -> StoredPayload | None:
    """What is there under this hash, kept for most of a day: time enough to commit a use of it."""
    conn.execute(SQL["renew_payload"], {"namespace": namespace, "sha256": digest})
    return find_payload(conn, namespace, digest)


def write_chunk(
    conn: Conn, namespace: str, holder: str, digest: str, chunk_index: int, data: bytes, most_bytes: int = NO_LIMIT
) -> bool:
    """Part of an upload; nobody sees it under its name before all of it is there and has the right hash.

    False, and nothing is written, if unfinished uploads of the namespace would have more than `most_bytes`.
    """
    if chunk_index == 0:
        conn.execute(SQL["remove_old_uploads"])
    parameters = {
        "namespace": namespace,
        "upload": _upload_name(holder, digest),
        "chunk_index": chunk_index,
        "chunk_count": MOST_CHUNKS,
        "data": data,
        "most_bytes": most_bytes,
    }
    return conn.execute(SQL["insert_upload"], parameters).rowcount > 0


@commit_site
def finish_upload(conn: Conn, namespace: str, holder: str, digest: str, size_bytes: int, chunk_count: int) -> Reference:
    """Give an upload its name, if it is what it claims to be; returns its reference. Done again, it says the same.

    It has no use before its task is reported; until then its age keeps it.
    """
    stored = keep_payload(conn, namespace, digest)
    if stored is not None:
        return Reference(stored.sha256, stored.size_bytes)
    upload = _upload_name(holder, digest)
    # One at a time: a large value takes ten times its size while it is looked at.
    with _looking:
        rows = conn.execute(SQL["read_payload"], {"namespace": namespace, "sha256": upload}).fetchall()
        text = b"".join(bytes(row[0]) for row in rows)
        if len(rows) != chunk_count or len(text) != size_bytes or sha256(text).hexdigest() != digest:
            raise UploadRefused(
                f"{len(rows)} chunks of {len(text)} bytes have arrived, and they are not what the hash says"
            )
        _check_text(text)
    parameters = {
        "namespace": namespace,
        "upload": upload,
        "sha256": digest,
        "chunk_count": chunk_count,
        "size_bytes": size_bytes,
        "media_type": PAYLOAD_MEDIA_TYPE,
    }
    try:
        conn.execute(SQL["finish_upload"], parameters)
    except psycopg.errors.UniqueViolation:  # somebody else had the same and was quicker
        conn.execute(SQL["remove_upload"], parameters)
    return Reference(digest, size_bytes)


def _check_text(text: bytes) -> None:
    """Readers pass it on unparsed, line by line, so it must be valid JSON on one line."""
    try:
        check_json(orjson.loads(text))
    except (orjson.JSONDecodeError, NotJsonError) as error:
        raise UploadRefused(f"it is not JSON that can be stored: {error}") from None
    if b"\n" in text or b"\r" in text:
        raise UploadRefused("it has more than one line: send it without spaces and line ends between values")


def find_payload(conn: Conn, namespace: str, digest: str) -> StoredPayload | None:
    row = conn.execute(SQL["find_payload"], {"namespace": namespace, "sha256": digest}).fetchone()
    return None if row is None else StoredPayload(*row)


def job_refers_to(conn: Conn, namespace: str, job_id: str, digest: str) -> bool:
    """Whether the job needs it, by itself or inside another payload that it needs."""
    parameters = {"namespace": namespace, "job_id": job_id, "sha256": digest}
    row = conn.execute(SQL["job_refers_to"], parameters).fetchone()
    return row is not None and bool(row[0])


def read_chunk(conn: Conn, namespace: str, digest: str, chunk_index: int) -> bytes | None:
    parameters = {"namespace": namespace, "sha256": digest, "chunk_index": chunk_index}
    row = conn.execute(SQL["read_chunk"], parameters).fetchone()
    return None if row is None else bytes(row[0])


def _upload_name(holder: str, digest: str) -> str:
    """A hash of something else: so nothing that is uploaded can stand where a payload is looked for."""
    return sha256(f"upload {holder} {digest}".encode()).hexdigest()


def read_json(conn: Conn, namespace: str, digest: str) -> Any:
    return orjson.loads(read_text(conn, namespace, digest))


def read_text(conn: Conn, namespace: str, digest: str) -> bytes:
    """The stored JSON text, for callers that only pass it on."""
    chunks = conn.execute(SQL["read_payload"], {"namespace": namespace, "sha256": digest}).fetchall()
    if not chunks:
        raise PayloadMissingError(f"there is no payload {digest} in namespace {namespace!r}")
    return b"".join(bytes(chunk[0]) for chunk in chunks)

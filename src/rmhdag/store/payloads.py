"""Values too large to stand inline: stored once under their hash, in chunks."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson
import psycopg

from rmhdag.models.columns import PAYLOAD_CHUNK_BYTES
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
MAX_BYTES = 64 * 1024 * 1024
MEDIA_TYPE = "application/json"


class PayloadMissingError(Exception):
    """A reference points to nothing: pruned, or of another namespace."""


@commit_site
def write_json(conn: Conn, namespace: str, text: bytes) -> dict[str, Any]:
    """Store JSON text and return its reference; the same text again is the same payload."""
    digest = sha256(text).hexdigest()
    chunks = [text[start : start + PAYLOAD_CHUNK_BYTES] for start in range(0, len(text), PAYLOAD_CHUNK_BYTES)] or [b""]
    with conn.transaction(), conn.cursor() as cursor:
        cursor.executemany(
            SQL["insert_payload"],
            [
                {
                    "namespace": namespace,
                    "sha256": digest,
                    "chunk_index": index,
                    "chunk_count": len(chunks),
                    "size_bytes": len(text),
                    "media_type": MEDIA_TYPE,
                    "data": chunk,
                }
                for index, chunk in enumerate(chunks)
            ],
        )
    return {"sha256": digest, "size_bytes": len(text), "media_type": MEDIA_TYPE}


def read_json(conn: Conn, namespace: str, digest: str) -> Any:
    return orjson.loads(read_text(conn, namespace, digest))


def read_text(conn: Conn, namespace: str, digest: str) -> bytes:
    """The stored JSON text, for whoever only passes it on."""
    chunks = conn.execute(SQL["read_payload"], {"namespace": namespace, "sha256": digest}).fetchall()
    if not chunks:
        raise PayloadMissingError(f"there is no payload {digest} in namespace {namespace!r}")
    return b"".join(bytes(chunk[0]) for chunk in chunks)

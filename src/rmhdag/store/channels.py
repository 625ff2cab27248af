"""The names that processes listen on. A notice is only a hint: whoever misses it finds the rows by polling."""

from __future__ import annotations

from hashlib import blake2b

NEW_JOBS = "rmhdag_jobs"
JOBS_ENDED = "rmhdag_ended"


def queue_channel(queue: str) -> str:
    """Queue names may be longer than PostgreSQL allows for a channel."""
    return f"rmhdag_q_{blake2b(queue.encode(), digest_size=12).hexdigest()}"


def owner_channel(owner_id: str) -> str:
    return f"rmhdag_o_{blake2b(owner_id.encode(), digest_size=12).hexdigest()}"

"""The names that processes listen on. A notification is only a hint: a process that misses it polls the rows."""

from __future__ import annotations

from hashlib import sha256

NEW_JOBS = "rmhdag_jobs"
JOBS_ENDED = "rmhdag_ended"


def queue_channel(queue: str) -> str:
    """Queue names may be longer than PostgreSQL allows for a channel. SQL makes the same names."""
    return f"rmhdag_q_{sha256(queue.encode()).hexdigest()[:24]}"


def owner_channel(owner_id: str) -> str:
    return f"rmhdag_o_{sha256(owner_id.encode()).hexdigest()[:24]}"

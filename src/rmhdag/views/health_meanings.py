"""What each health check is about and why it matters, in one sentence for people who did not build the platform."""

from __future__ import annotations

_LOOPS = (
    "Each process repeats a few duties; one that does not come round any more has stopped working, though it lives."
)
_THREADS = "A duty that ended with an unexpected error was started again; work goes on, but something is wrong."
_VERSIONS = "Processes of different versions work together only during an upgrade."

MEANINGS: dict[str, dict[str, str]] = {
    "orchestrators": {
        "alive": "Orchestrators decide what runs next; without one, no job makes progress.",
        "silent": "An orchestrator that sends no heartbeat has died or hangs; the others take its jobs over.",
        "loops": _LOOPS,
        "threads": _THREADS,
        "versions": _VERSIONS,
        "retention": "Old jobs, events and logs are deleted in the background, so that the database stays small.",
    },
    "database": {
        "answer": "How long the database takes for a simple question; every step of every job asks it several.",
        "connections": "When all connections are used, no new process and no new request gets one.",
        "oldest transaction": "While a transaction is open, space of deleted rows cannot be reused, and tables grow.",
        "idle in transaction": "A client began a transaction and does nothing: it holds locks and hinders cleaning up.",
        "blocked": "Sessions that wait for a lock of another session; jobs behind them wait too.",
        "transaction ids": "PostgreSQL must freeze old rows before its transaction ids run out, or it stops writing.",
        "durability": "With fsync, what was committed survives a power failure.",
        "dead rows": "Deleted and changed rows that were not cleaned up make queues slow.",
    },
    "messaging": {
        "queue names": "Workers and orchestrators must agree on the names of queues.",
        "inbox": "Reports of workers and commands of people that no orchestrator has handled yet.",
        "outbox": "Messages to a broker that were not sent yet.",
        "callbacks": "Notifications to the systems that submitted jobs.",
        "unclaimed jobs": "Submitted jobs that no orchestrator has taken yet.",
        "dead letters": "Tasks and messages that were given up and wait for a decision of a person.",
        "tables in PostGIS": "Tables of vector data that get their public names, or are dropped, in the background.",
    },
    "workers": {
        "alive": "Workers run the tasks; without one, everything waits.",
        "silent": "A worker that sends no heartbeat has died or hangs; its tasks go back to their queues.",
        "unserved queues": "Tasks wait in a queue that no live worker serves; they wait until one is started.",
        "missing handlers": "Tasks wait for a handler that no live worker of their queue has.",
        "loops": _LOOPS,
        "threads": _THREADS,
        "versions": _VERSIONS,
    },
    "system": {
        "disk": "Free space where the API runs; files and logs need it.",
        "memory": "Memory that is left on the machine of the API; when it runs out, processes are killed.",
        "schema": "The tables must be of the version that this program was made for.",
        "quotas": "What this namespace uses of what it may use; above a quota, new work is refused.",
        "reviews": "Content that waits for a reviewer is not published until someone decides.",
    },
}

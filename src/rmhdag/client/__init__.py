"""The Python client for an rmhdag server over HTTP, blocking and async."""

from rmhdag.client.clients import AsyncClient, BatchRefused, Client
from rmhdag.client.errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    NotFound,
    RmhdagError,
    ServerError,
    Unavailable,
    WaitTimeout,
)
from rmhdag.client.jobs import AsyncJob, Job

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "AuthenticationError",
    "BatchRefused",
    "Client",
    "Conflict",
    "InvalidRequest",
    "Job",
    "JobCancelled",
    "JobFailed",
    "NotFound",
    "RmhdagError",
    "ServerError",
    "Unavailable",
    "WaitTimeout",
]

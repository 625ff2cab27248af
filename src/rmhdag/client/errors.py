"""What can go wrong, as exceptions that mirror the exit codes of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rmhdag.models.api.data_errors import ErrorView
from rmhdag.models.api.problems import ProblemBody, ProblemPlace


class RmhdagError(Exception):
    """`code` is a word for programs, `remedy` what to do, `errors` the places that are wrong."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        code: str,
        detail: str,
        remedy: str | None = None,
        errors: Sequence[ProblemPlace] = (),
        status: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.errors = list(errors)
        self.status = status

    def __str__(self) -> str:
        places = [f"  {place.pointer or 'the whole'}: {place.detail}" for place in self.errors]
        return "\n".join([self.detail, *places, *([f"  {self.remedy}"] if self.remedy else [])])


class JobFailed(RmhdagError):
    """The job that was waited for has failed; `job_id` names it, `error` says why if the cause has a code."""

    def __init__(
        self,
        job_id: str,
        detail: str,
        remedy: str | None = None,
        code: str = "job_failed",
        error: ErrorView | None = None,
    ) -> None:
        super().__init__(code, detail, remedy)
        self.job_id = job_id
        self.error = error


class JobCancelled(JobFailed):
    """The job that was waited for was cancelled."""

    exit_code = 7

    def __init__(self, job_id: str, detail: str, remedy: str | None = None) -> None:
        super().__init__(job_id, detail, remedy, "job_cancelled")


class InvalidRequest(RmhdagError):
    """Something in what was sent is wrong; `errors` says what and where."""

    exit_code = 3


class NotFound(RmhdagError):
    """It does not exist, or belongs to another namespace."""

    exit_code = 4


class AuthenticationError(RmhdagError):
    """No key, a wrong one, or one that may not do this."""

    exit_code = 5


class Conflict(RmhdagError):
    """Something else stands in the way."""

    exit_code = 6


class WaitTimeout(RmhdagError):
    """The job has not ended in the time that was given; it goes on."""

    exit_code = 8

    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__("wait_timeout", f"job {job_id} has not ended after {seconds:g} s; it goes on")
        self.job_id = job_id


class Unavailable(RmhdagError):
    """The server cannot be reached or cannot answer now, also after several tries."""

    exit_code = 69


class ServerError(RmhdagError):
    """A defect on the other side."""


# Told as 422 and 400, but what they mean to a caller is something else.
BY_CODE: dict[str, type[RmhdagError]] = {"idempotency_key_reused": Conflict, "unknown_node": NotFound}
BY_STATUS: dict[int, type[RmhdagError]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFound,
    409: Conflict,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(problem: ProblemBody) -> RmhdagError:
    fallback = ServerError if problem.status >= 500 else InvalidRequest
    kind = BY_CODE.get(problem.code) or BY_STATUS.get(problem.status, fallback)
    return kind(problem.code, problem.detail, problem.remedy, problem.errors, problem.status)

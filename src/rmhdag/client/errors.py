"""What can go wrong, as exceptions that mirror the exit codes of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rmhdag.models.api.data_errors import ErrorView
from rmhdag.models.api.problems import ProblemBody, ProblemPlace
from rmhdag.models.refusals import MEANINGS, ExitCode, Kind, kind_of


class RmhdagError(Exception):
    """`code` is a word for programs, `remedy` what to do, `errors` the places that are wrong."""

    exit_code: ClassVar[int] = ExitCode.FAILED

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

    exit_code = ExitCode.CANCELLED

    def __init__(self, job_id: str, detail: str, remedy: str | None = None) -> None:
        super().__init__(job_id, detail, remedy, "job_cancelled")


class InvalidRequest(RmhdagError):
    """Something in what was sent is wrong; `errors` says what and where."""

    exit_code = MEANINGS[Kind.INVALID].exit_code


class NotFound(RmhdagError):
    """It does not exist, or belongs to another namespace."""

    exit_code = MEANINGS[Kind.NOT_FOUND].exit_code


class AuthenticationError(RmhdagError):
    """No key, a wrong one, or one that may not do this."""

    exit_code = MEANINGS[Kind.FORBIDDEN].exit_code


class Conflict(RmhdagError):
    """Something else stands in the way."""

    exit_code = MEANINGS[Kind.CONFLICT].exit_code


class WaitTimeout(RmhdagError):
    """The job has not ended in the time that was given; it goes on."""

    exit_code = ExitCode.WAIT_TIMEOUT

    def __init__(self, job_id: str, seconds: float) -> None:
        super().__init__("wait_timeout", f"job {job_id} has not ended after {seconds:g} s; it continues")
        self.job_id = job_id


class Unavailable(RmhdagError):
    """The server cannot be reached or cannot answer now, also after several tries."""

    exit_code = MEANINGS[Kind.UNAVAILABLE].exit_code


class ServerError(RmhdagError):
    """A defect on the other side."""


BY_KIND: dict[Kind, type[RmhdagError]] = {
    Kind.INVALID: InvalidRequest,
    Kind.UNUSABLE: InvalidRequest,
    Kind.NOT_FOUND: NotFound,
    Kind.UNKNOWN_NAME: NotFound,
    Kind.UNAUTHENTICATED: AuthenticationError,
    Kind.FORBIDDEN: AuthenticationError,
    Kind.CONFLICT: Conflict,
    Kind.REUSED: Conflict,
    Kind.BUSY: Unavailable,
    Kind.UNAVAILABLE: Unavailable,
    Kind.NOT_OFFERED: InvalidRequest,
    Kind.UNEXPECTED: ServerError,
}


def error_of(problem: ProblemBody) -> RmhdagError:
    error = BY_KIND[kind_of(problem.status, problem.code)]
    return error(problem.code, problem.detail, problem.remedy, problem.errors, problem.status)

"""Refusals: the one way for a use case to say no, and what each kind of no means to HTTP and to a shell.

Refusal                      kind, code, message, remedy, places
├── those of the use cases   where code has to tell one from the others
└── api.problems.Problem     of HTTP itself: a status and headers of its own
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import NamedTuple


class ExitCode(IntEnum):
    """Exit codes. The numbers are part of the contract and never change their meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    NOT_FOUND = 4
    AUTHENTICATION = 5
    CONFLICT = 6
    CANCELLED = 7
    WAIT_TIMEOUT = 8
    UNAVAILABLE = 69
    INTERRUPTED = 130


class Kind(StrEnum):
    """Why something is refused."""

    # Something in the request is wrong.
    INVALID = "invalid"
    # The request is fine, but the installation or the workflow that it needs is not.
    UNUSABLE = "unusable"
    # What the address names does not exist, or belongs to another namespace.
    NOT_FOUND = "not_found"
    # What the body names does not exist.
    UNKNOWN_NAME = "unknown_name"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    # Something else stands in the way.
    CONFLICT = "conflict"
    # An id or a key stands for something else already.
    REUSED = "reused"
    # Not now; perhaps soon.
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    # Known, and not offered here.
    NOT_OFFERED = "not_offered"
    # A defect of ours.
    UNEXPECTED = "unexpected"


class Meaning(NamedTuple):
    status: int
    exit_code: ExitCode


MEANINGS: dict[Kind, Meaning] = {
    Kind.INVALID: Meaning(422, ExitCode.INVALID),
    Kind.UNUSABLE: Meaning(409, ExitCode.INVALID),
    Kind.NOT_FOUND: Meaning(404, ExitCode.NOT_FOUND),
    Kind.UNKNOWN_NAME: Meaning(422, ExitCode.NOT_FOUND),
    Kind.UNAUTHENTICATED: Meaning(401, ExitCode.AUTHENTICATION),
    Kind.FORBIDDEN: Meaning(403, ExitCode.AUTHENTICATION),
    Kind.CONFLICT: Meaning(409, ExitCode.CONFLICT),
    Kind.REUSED: Meaning(422, ExitCode.CONFLICT),
    Kind.BUSY: Meaning(429, ExitCode.UNAVAILABLE),
    Kind.UNAVAILABLE: Meaning(503, ExitCode.UNAVAILABLE),
    Kind.NOT_OFFERED: Meaning(501, ExitCode.INVALID),
    Kind.UNEXPECTED: Meaning(500, ExitCode.FAILED),
}

# A problem of HTTP does not name its kind. Where two kinds have one status, the code tells them apart.
KINDS_OF_CODES = {
    "no_queues": Kind.UNUSABLE,
    "unfit_workflow": Kind.UNUSABLE,
    "unknown_node": Kind.UNKNOWN_NAME,
    "unknown_promoted": Kind.UNKNOWN_NAME,
    "unknown_reference": Kind.UNKNOWN_NAME,
    "idempotency_key_reused": Kind.REUSED,
    "quota_exceeded": Kind.CONFLICT,
    "request_reused": Kind.REUSED,
}
KINDS_OF_STATUSES = {
    401: Kind.UNAUTHENTICATED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    409: Kind.CONFLICT,
    429: Kind.BUSY,
    501: Kind.NOT_OFFERED,
    502: Kind.UNAVAILABLE,
    503: Kind.UNAVAILABLE,
    504: Kind.UNAVAILABLE,
}


def kind_of(status: int, code: str) -> Kind:
    """The kind of a refusal that came as an HTTP problem."""
    if status == MEANINGS[Kind.BUSY].status:
        return Kind.BUSY
    fallback = Kind.UNEXPECTED if status >= 500 else Kind.INVALID
    return KINDS_OF_CODES.get(code) or KINDS_OF_STATUSES.get(status, fallback)


class Place(NamedTuple):
    """Where something is wrong: a JSON pointer, and a line for what was written as text. `code` is one of
    `error_codes`, if it is about data.
    """

    pointer: str
    detail: str
    line: int | None = None
    column: int | None = None
    code: str | None = None


class Refusal(Exception):
    """`code` is a word for programs that does not change, `message` a sentence, `remedy` what to do.

    `pointer` is short for one place with the message itself. `expected` is the state that a step would have needed.
    """

    def __init__(
        self,
        kind: Kind,
        code: str,
        message: str,
        *,
        remedy: str | None = None,
        places: Iterable[Place] = (),
        pointer: str | None = None,
        expected: str | None = None,
    ) -> None:
        Exception.__init__(self, message)
        self.kind = kind
        self.code = code
        self.message = message
        self.remedy = remedy
        self.expected = expected
        self.places = [*([] if pointer is None else [Place(pointer, message)]), *places]

    @property
    def exit_code(self) -> ExitCode:
        return MEANINGS[self.kind].exit_code


def not_found(what: str, remedy: str | None = None) -> Refusal:
    """The same for what does not exist and for what belongs to another namespace."""
    return Refusal(Kind.NOT_FOUND, "not_found", f"there is no {what}", remedy=remedy)

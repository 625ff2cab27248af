"""Where parameters are checked: small ones at once, all others in a process of their own, while no connection waits.
So are the checks that a workflow declares: files are looked at while there is no connection and no transaction.

A small check is bounded: its time is linear in 16 KB of parameters and 64 KB of declarations, some milliseconds. So are
the small checks of one call together: 4 MB of both, 10 ms for patterns, and as many problems as one check may find.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from rmhdag.api.check_pool import CheckTooExpensive
from rmhdag.api.check_process import INPUTS
from rmhdag.api.context import Api
from rmhdag.api.problems import Problem
from rmhdag.models.limits import BATCH_BYTES, MB
from rmhdag.services.submissions import CheckNeeded, ChecksNeeded, complete_inputs
from rmhdag.store.connection import Conn
from rmhdag.views.memory import Memory
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow import Problem as Fault
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.expressions.budget import MAX_WORK
from rmhdag.workflow.inputs import Declared, complete_declared, declared_inputs
from rmhdag.workflow.patterns import OutOfWork, PatternWork
from rmhdag.workflow.preflight import (
    MOST_QUESTIONS,
    BlobAnswer,
    BlobQuestion,
    ChecksFailed,
    examine,
    postgis_fault,
)
from rmhdag.workflow.problems import MAX_PROBLEMS

SMALL_PARAMS_BYTES = 16 * 1024
SMALL_DECLARATION_BYTES = 64 * 1024
# In units of patterns.MAX_WORK: 10 ms at the very worst.
SMALL_PATTERN_WORK = 300_000
# Of all jobs in one call.
SMALL_CHECKS_BYTES = 4 * MB
# Of the templates in the checks of all jobs in one call: a tenth of a second.
MOST_TEMPLATE_WORK = 2 * MAX_WORK
# The first time a check is found to be needed, the second time it is there; between them a workflow may be replaced.
MOST_ATTEMPTS = 4

T = TypeVar("T")
_Key = tuple[bytes, bytes]

# By identity, each with what it was made from, which so stays alive.
_declarations: Memory[int, tuple[object, Declared, bytes]] = Memory(100)


class _Needed(NamedTuple):
    key: _Key
    declared: bytes
    params: bytes
    with_references: bool


class _LooksNeeded(NamedTuple):
    """Files that the checks of a workflow are about."""

    questions: tuple[BlobQuestion, ...]


class _CallTooLarge(Exception):
    """No Refusal, because that would be the answer to one job of the call."""


def with_checks(api: Api, namespace: str, action: Callable[[Conn, Checks], T]) -> T:
    """Do what takes parameters; it is begun again if some of them have to be checked elsewhere first."""
    checks = Checks(api, namespace)
    for _ in range(MOST_ATTEMPTS):
        checks.begin()
        try:
            with api.connection() as conn:
                return action(conn, checks)
        except _CallTooLarge:
            raise Problem(
                413,
                "batch_too_large",
                f"the jobs of one call have at most {BATCH_BYTES} bytes of parameters together, with their defaults",
                remedy="Submit fewer jobs at once.",
            ) from None
        except ChecksNeeded as error:
            checks.run([check.what for check in error.checks])
    raise Problem(
        409, "workflow_replaced", "the workflow is being replaced again and again", remedy="Try again in a moment."
    )


class Checks:
    """What was checked for one call, by the digests of declarations and parameters. Called, it completes parameters."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._answers: dict[_Key, dict[str, Any]] = {}
        self._looks: dict[tuple[BlobQuestion, ...], dict[BlobQuestion, BlobAnswer]] = {}
        self.begin()

    def begin(self) -> None:
        """Of what all checks of the call share, nothing is spent yet."""
        self._patterns = PatternWork(SMALL_PATTERN_WORK)
        self._bytes_left = SMALL_CHECKS_BYTES
        self._faults_left = MAX_PROBLEMS
        self._stored_bytes = 0
        self._template_work = 0

    def __call__(
        self, definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
    ) -> dict[str, Any]:
        """As `complete_inputs`. Raises CheckNeeded for what has to be checked elsewhere."""
        try:
            text = orjson.dumps(params)
        except TypeError:  # an integer that is too long: told at its first look
            return complete_inputs(definition, params, with_references=with_references)
        try:
            complete = self._complete(definition, params, text, with_references)
        except InvalidInputs as error:
            self._faults_left -= len(error.problems)
            raise
        self._stored_bytes += len(orjson.dumps(complete))
        if self._stored_bytes > BATCH_BYTES:
            raise _CallTooLarge
        # What a job had before was checked when it was submitted.
        if definition.checks and not with_references:
            self._check_files(definition, complete)
        return complete

    def _check_files(self, definition: WorkflowDefinition, params: Mapping[str, Any]) -> None:
        """Raises ChecksFailed with all that is wrong, and CheckNeeded for files that nobody has looked at yet."""
        preflight = examine(definition, params)
        self._template_work += preflight.work
        if self._template_work > MOST_TEMPLATE_WORK:
            raise Problem(
                422,
                "check_too_expensive",
                "the checks of these jobs take too long",
                remedy="Submit fewer jobs at once, or write simpler templates in `checks`.",
            )
        faults, questions = preflight.faults, tuple(preflight.questions)
        if preflight.needs_postgis is not None and self._api.settings.has_postgis is False:
            faults = [*faults, postgis_fault(preflight.needs_postgis)]
        if questions and self._api.blobs.is_possible:
            if questions not in self._looks:
                raise CheckNeeded(_LooksNeeded(questions))
            answers = self._looks[questions].values()
            faults = [*faults, *(answer.fault for answer in answers if answer.fault is not None)]
        if faults:
            raise ChecksFailed(definition.workflow_id, faults)

    @property
    def input_bytes(self) -> int | None:
        """Of all files that were looked at; None if there were none, or if not all sizes are known."""
        sizes = {
            (question.zone, question.container, question.path): answer.size_bytes
            for answers in self._looks.values()
            for question, answer in answers.items()
        }
        bytes_of_files = [size for size in sizes.values() if size is not None]
        return sum(bytes_of_files) if sizes and len(bytes_of_files) == len(sizes) else None

    def _complete(
        self, definition: WorkflowDefinition, params: Mapping[str, Any], text: bytes, with_references: bool
    ) -> dict[str, Any]:
        inputs, declared = _declaration(definition)
        size_bytes = len(text) + len(declared)
        is_small = len(text) <= SMALL_PARAMS_BYTES and len(declared) <= SMALL_DECLARATION_BYTES
        most_faults = max(1, self._faults_left)
        # Their names alone are as many faults as are told: nobody looks at a value.
        is_hopeless = len(params) >= most_faults and len(params.keys() - inputs.keys()) >= most_faults
        if is_hopeless or (is_small and size_bytes <= self._bytes_left):
            self._bytes_left -= size_bytes
            try:
                return complete_declared(
                    inputs,
                    dict(params),
                    with_references=with_references,
                    patterns=self._patterns,
                    most_faults=most_faults,
                )
            except OutOfWork:
                pass
        key = hashlib.sha256(declared).digest(), hashlib.sha256(text).digest()
        answer = self._answers.get(key)
        if answer is None:
            raise CheckNeeded(_Needed(key, declared, text, with_references))
        if "faults" in answer:
            raise InvalidInputs([Fault(*fault) for fault in answer["faults"]])
        complete: dict[str, Any] = answer.get("complete", params)
        return complete

    def run(self, needed: list[_Needed | _LooksNeeded]) -> None:
        looks = list(dict.fromkeys(check.questions for check in needed if isinstance(check, _LooksNeeded)))
        if looks:
            self._look(looks)
        parameters = [check for check in needed if isinstance(check, _Needed)]
        if parameters:
            self._run(parameters)

    def _look(self, looks: list[tuple[BlobQuestion, ...]]) -> None:
        """At the files of all jobs of the call at once, so that they share the time."""
        files = dict.fromkeys(question for questions in looks for question in questions)
        if len(files) > MOST_QUESTIONS:
            raise Problem(
                422,
                "check_too_expensive",
                f"the jobs of one call name {len(files):,} files, and at most {MOST_QUESTIONS:,} are checked",
                remedy="Submit fewer jobs at once.",
            )
        answers = self._api.blobs.find(self._namespace, list(files))
        for questions in looks:
            self._looks[questions] = {question: answers[question] for question in questions}

    def _run(self, needed: list[_Needed]) -> None:
        """All in one check, each declaration sent once."""
        places: dict[bytes, int] = {}
        for check in needed:
            places.setdefault(check.declared, len(places))
        plan = orjson.dumps([(places[check.declared], check.with_references) for check in needed])
        declared, params = _json_list(places), _json_list(check.params for check in needed)
        try:
            verdict = self._api.checks.check(self._namespace, INPUTS, plan, declared, params)
        except CheckTooExpensive as error:
            raise Problem(
                422,
                "check_too_expensive",
                f"the parameters cannot be checked: {error}",
                remedy="Pass less, or store it as a file and pass its address; declare simpler patterns.",
                pointer="/input_params",
            ) from None
        for check, answer in zip(needed, verdict["answers"], strict=True):
            self._answers[check.key] = answer


def _declaration(definition: WorkflowDefinition) -> tuple[Declared, bytes]:
    """The declared inputs, also as JSON; made once per definition in memory."""
    inputs = definition.inputs
    entry = _declarations.recall(id(inputs))
    if entry is None or entry[0] is not inputs:
        declared = declared_inputs(definition)
        entry = _declarations.keep(id(inputs), (inputs, declared, orjson.dumps(declared)))
    return entry[1], entry[2]


def _json_list(texts: Any) -> bytes:
    return b"[" + b",".join(texts) + b"]"

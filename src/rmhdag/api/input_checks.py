"""Where parameters are checked: small ones at once, all others in a process of their own, while no connection waits.

A small check is bounded: its time is linear in 16 KB of parameters and 64 KB of declarations, some milliseconds, and
its patterns get a budget of 10 ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from rmhdag.api.check_pool import CheckTooExpensive
from rmhdag.api.check_process import INPUTS
from rmhdag.api.context import Api, Conn
from rmhdag.api.problems import Problem
from rmhdag.api.views.memory import Memory
from rmhdag.orchestrator.submissions import CheckNeeded, ChecksNeeded, Completion, complete_inputs
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow import Problem as Fault
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.inputs import declared_inputs
from rmhdag.workflow.patterns import OutOfWork

SMALL_PARAMS_BYTES = 16 * 1024
SMALL_DECLARATION_BYTES = 64 * 1024
# In units of patterns.MAX_WORK: 10 ms at the very worst.
SMALL_PATTERN_WORK = 300_000
# The first time a check is found to be needed, the second time it is there; between them a workflow may be replaced.
MOST_ATTEMPTS = 4

T = TypeVar("T")
_Key = tuple[bytes, bytes]

# By identity, each with what it was made from, which so stays alive.
_declarations: Memory[int, tuple[object, bytes]] = Memory(100)


class _Needed(NamedTuple):
    key: _Key
    declared: bytes
    params: bytes
    with_references: bool


def with_checks(api: Api, namespace: str, action: Callable[[Conn, Completion], T]) -> T:
    """Do what takes parameters; it is begun again if some of them have to be checked elsewhere first."""
    checks = _Checks(api, namespace)
    for _ in range(MOST_ATTEMPTS):
        try:
            with api.connection() as conn:
                return action(conn, checks.complete)
        except ChecksNeeded as error:
            checks.run([one.what for one in error.checks])
    raise Problem(
        409, "workflow_replaced", "the workflow is being replaced again and again", remedy="Try again in a moment."
    )


class _Checks:
    """What was checked for one call, by the digests of declarations and parameters."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._answers: dict[_Key, dict[str, Any]] = {}

    def complete(
        self, definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
    ) -> dict[str, Any]:
        """As `complete_inputs`. Raises CheckNeeded for what has to be checked elsewhere."""
        declared = _declaration(definition)
        try:
            text = orjson.dumps(params)
        except TypeError:  # an integer that is too long: told below, at its first look
            return complete_inputs(definition, params, with_references=with_references)
        if len(text) <= SMALL_PARAMS_BYTES and len(declared) <= SMALL_DECLARATION_BYTES:
            try:
                return complete_inputs(
                    definition, params, with_references=with_references, pattern_work=SMALL_PATTERN_WORK
                )
            except OutOfWork:
                pass
        key = hashlib.sha256(declared).digest(), hashlib.sha256(text).digest()
        answer = self._answers.get(key)
        if answer is None:
            raise CheckNeeded(_Needed(key, declared, text, with_references))
        if "faults" in answer:
            raise InvalidInputs([Fault(*fault) for fault in answer["faults"]])
        complete: dict[str, Any] = answer["complete"]
        return complete

    def run(self, needed: list[_Needed]) -> None:
        """All in one check, each declaration sent once."""
        places: dict[bytes, int] = {}
        for one in needed:
            places.setdefault(one.declared, len(places))
        asked = orjson.dumps([(places[one.declared], one.with_references) for one in needed])
        declared, params = _json_list(places), _json_list(one.params for one in needed)
        try:
            found = self._api.checks.check(self._namespace, INPUTS, asked, declared, params)
        except CheckTooExpensive as error:
            raise Problem(
                422,
                "check_too_expensive",
                f"the parameters cannot be checked: {error}",
                remedy="Pass less, or store it as a file and pass its address; declare simpler patterns.",
                pointer="/input_params",
            ) from None
        for one, answer in zip(needed, found["answers"], strict=True):
            self._answers[one.key] = answer


def _declaration(definition: WorkflowDefinition) -> bytes:
    """The declared inputs as JSON, written once per definition in memory."""
    inputs = definition.inputs
    found = _declarations.recall(id(inputs))
    if found is not None and found[0] is inputs:
        return found[1]
    return _declarations.keep(id(inputs), (inputs, orjson.dumps(declared_inputs(definition))))[1]


def _json_list(texts: Any) -> bytes:
    return b"[" + b",".join(texts) + b"]"

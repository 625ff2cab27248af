"""The process in which workflows and parameters are checked, so that no check can stop the API.

It reads requests from its standard input and answers them on its standard output, one after the other. A check that
needs more processor time than it was given ends the whole process: code that holds the interpreter cannot be broken off
in another way.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

import orjson

from rmhdag.picture.layout import layout
from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.inputs import InvalidInputs, complete_declared, is_unchanged
from rmhdag.workflow.known_handlers import HandlerEntry, shipped_handlers
from rmhdag.workflow.loader import make_definition
from rmhdag.workflow.problems import MAX_PROBLEMS
from rmhdag.workflow.stored_form import definition_hash, definition_json

# Kind of check, seconds of processor time, and the lengths of its parts.
HEAD = struct.Struct("!cdIII")
# Of the answer, and the processor time that it took.
LENGTH = struct.Struct("!Qd")
WORKFLOW, INPUTS = b"w", b"i"
# Twenty times what the largest file takes.
MEMORY_BYTES = 4 * 1024**3


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, answers = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    _send(answers, b"ready")
    while head := source.read(HEAD.size):
        kind, cpu_seconds, *lengths = HEAD.unpack(head)
        parts = [source.read(length) for length in lengths]
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        answer = check(kind, parts)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(answers, answer, time.process_time() - began)


def check(kind: bytes, parts: Sequence[bytes]) -> bytes:
    return orjson.dumps(_check_workflow(*parts) if kind == WORKFLOW else _check_inputs(*parts))


def _send(answers: BinaryIO, answer: bytes, seconds: float = 0.0) -> None:
    answers.write(LENGTH.pack(len(answer), seconds))
    answers.write(answer)
    answers.flush()


def _check_workflow(context: bytes, text: bytes, data: bytes) -> dict[str, Any]:
    """A workflow as a text, or else as data; `told` is what it is checked against."""
    around = orjson.loads(context)
    handlers = shipped_handlers().with_entries(
        HandlerEntry(name, tuple(aliases), queue, params_schema, output_schema)
        for name, aliases, queue, params_schema, output_schema in around["handlers"]
    )
    surroundings = Surroundings(handlers, around["queues"], around["env_names"], around["fallback_queue"])
    checked, faults = find_problems(orjson.loads(data) if data else text, surroundings)
    if checked is None:
        return {"faults": list(map(tuple, faults))}
    answer = {
        "faults": [],
        "workflow_id": checked.workflow_id,
        "version": checked.version,
        "node_count": checked.node_count,
    }
    if around["is_stored"]:
        definition = make_definition(checked).definition
        answer |= {
            "hash": definition_hash(definition),
            "definition": definition_json(definition),
            "layout": layout(definition).as_json(),
        }
    return answer


def _check_inputs(places: bytes, declared: bytes, params: bytes) -> dict[str, Any]:
    """Several objects of parameters, each against the declarations of its workflow."""
    workflows, all_params = orjson.loads(declared), orjson.loads(params)
    answers: list[dict[str, Any]] = []
    faults_left = MAX_PROBLEMS
    for (place, with_references), values in zip(orjson.loads(places), all_params, strict=True):
        try:
            complete = complete_declared(
                workflows[place], values, with_references=with_references, most_faults=max(1, faults_left)
            )
            # To write and read again what the other side has would take as long as the check.
            answers.append({} if is_unchanged(complete, values) else {"complete": complete})
        except InvalidInputs as error:
            faults_left -= len(error.problems)
            answers.append({"faults": list(map(tuple, error.problems))})
    return {"answers": answers}


if __name__ == "__main__":
    main()

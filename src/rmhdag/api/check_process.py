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
from typing import Any, BinaryIO

import orjson

from rmhdag.workflow.catalogue import HandlerEntry, shipped_handlers
from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.inputs import InvalidInputs, complete_declared
from rmhdag.workflow.layout import layout
from rmhdag.workflow.loader import make_definition
from rmhdag.workflow.stored_form import definition_hash, definition_json

# Kind of check, seconds of processor time, and the lengths of its parts.
HEAD = struct.Struct("!cdIII")
LENGTH = struct.Struct("!Q")
WORKFLOW, INPUTS = b"w", b"i"
# Twenty times what the largest file takes.
MEMORY_BYTES = 4 * 1024**3


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever asks for an expensive check waits for it; those who ask for anything else should not.
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, answers = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    _send(answers, b"ready")
    while head := source.read(HEAD.size):
        kind, cpu_seconds, *lengths = HEAD.unpack(head)
        parts = [source.read(length) for length in lengths]
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        answer = orjson.dumps(_check_workflow(*parts) if kind == WORKFLOW else _check_inputs(*parts))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(answers, answer)


def _send(answers: BinaryIO, answer: bytes) -> None:
    answers.write(LENGTH.pack(len(answer)))
    answers.write(answer)
    answers.flush()


def _check_workflow(told: bytes, text: bytes, data: bytes) -> dict[str, Any]:
    """A workflow as a text, or else as data; `told` is what it is checked against."""
    around = orjson.loads(told)
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


def _check_inputs(asked: bytes, declared: bytes, params: bytes) -> dict[str, Any]:
    """Several objects of parameters, each against the declarations of its workflow."""
    workflows, all_params = orjson.loads(declared), orjson.loads(params)
    answers: list[dict[str, Any]] = []
    for (place, with_references), given in zip(orjson.loads(asked), all_params, strict=True):
        try:
            answers.append({"complete": complete_declared(workflows[place], given, with_references=with_references)})
        except InvalidInputs as error:
            answers.append({"faults": list(map(tuple, error.problems))})
    return {"answers": answers}


if __name__ == "__main__":
    main()

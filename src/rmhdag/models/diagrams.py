"""The state diagrams of the documentation, drawn from the transition tables.

`python -m rmhdag.models.diagrams docs/architecture/states.md` writes the page anew.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rmhdag.models.states import (
    JOB_TERMINAL,
    JOB_TRANSITIONS,
    NODE_TERMINAL,
    NODE_TRANSITIONS,
    TASK_TERMINAL,
    TASK_TRANSITIONS,
    JobStatus,
    NodeStatus,
    TaskStatus,
)

S = TypeVar("S", bound=StrEnum)

_PAGE = """# States

Every state that a job, a node or a task can be in, and every change between them. Written by
`python -m rmhdag.models.diagrams docs/architecture/states.md` from `rmhdag.models.states`; a test compares the two.

## Job

A terminal job never changes: retry and rerun make a new job that names its origin. While a job drains, `ending` says
how it will end.

{job}

## Node

`failed` is left only by a retry. A lost worker sends the node back to `ready` and uses up no attempt.

{node}

## Task

One lease of one attempt, as the worker's reports tell it. `lost` and `stale` are leases that another one replaced; of
the other ends a task has exactly one.

{task}
"""


def state_diagram(first: S, transitions: Mapping[S, Mapping[S, str]], terminal: frozenset[S]) -> str:
    """A Mermaid state diagram, in the order of the table."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {start} --> {end}: {why}" for start, ends in transitions.items() for end, why in ends.items()]
    lines += [f"    {state} --> [*]" for state in transitions if state in terminal]
    return "\n".join([*lines, "```"])


def render_page() -> str:
    return _PAGE.format(
        job=state_diagram(JobStatus.PENDING, JOB_TRANSITIONS, JOB_TERMINAL),
        node=state_diagram(NodeStatus.PENDING, NODE_TRANSITIONS, NODE_TERMINAL),
        task=state_diagram(TaskStatus.RECEIVED, TASK_TRANSITIONS, TASK_TERMINAL),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rmhdag.models.diagrams FILE")
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")

"""Every pair of states is either allowed by the contract or not, and the tables agree with it."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from rmhdag.models.diagrams import render_page
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

# The contract, written a second time: state → the states that may follow it.
JOB = {"pending": "running failed cancelled", "running": "completed failed cancelled"}
NODE = {
    "pending": "ready skipped cancelled",
    "ready": "dispatched running completed failed skipped cancelled",
    "dispatched": "running completed failed ready cancelled",
    "running": "completed failed ready cancelled",
    "failed": "ready",
}
TASK = {
    "received": "running completed failed lost cancelled",
    "running": "completed failed lost stale cancelled",
}

Transitions = Mapping[StrEnum, Mapping[StrEnum, str]]
MACHINES: list[tuple[type[StrEnum], Transitions, dict[str, str]]] = [
    (JobStatus, JOB_TRANSITIONS, JOB),  # type: ignore[list-item]
    (NodeStatus, NODE_TRANSITIONS, NODE),  # type: ignore[list-item]
    (TaskStatus, TASK_TRANSITIONS, TASK),  # type: ignore[list-item]
]
PAIRS = [
    pytest.param(
        table, start, end, end.value in contract.get(start.value, "").split(), id=f"{kind.__name__}-{start}-{end}"
    )
    for kind, table, contract in MACHINES
    for start in kind
    for end in kind
]


@pytest.mark.parametrize(("table", "start", "end", "allowed"), PAIRS)
def test_every_pair_is_as_the_contract_says(table: Transitions, start: StrEnum, end: StrEnum, allowed: bool) -> None:
    assert (end in table[start]) is allowed


@pytest.mark.parametrize(
    ("table", "terminal", "exceptions"),
    [
        (JOB_TRANSITIONS, JOB_TERMINAL, set()),
        (NODE_TRANSITIONS, NODE_TERMINAL, {NodeStatus.FAILED}),
        (TASK_TRANSITIONS, TASK_TERMINAL, set()),
    ],
)
def test_terminal_states_are_those_that_nothing_leaves(
    table: Transitions, terminal: frozenset[StrEnum], exceptions: set[StrEnum]
) -> None:
    assert {state for state, ends in table.items() if not ends} == terminal - exceptions


def test_every_transition_says_why() -> None:
    assert all(why.strip() for _, table, _ in MACHINES for ends in table.values() for why in ends.values())


def test_documented_diagrams_are_drawn_from_the_tables() -> None:
    page = Path(__file__).parents[2] / "docs/architecture/states.md"
    assert page.read_text(encoding="utf-8") == render_page(), (
        "run: python -m rmhdag.models.diagrams docs/architecture/states.md"
    )

"""What a request has needed is free when it is answered: nothing waits for the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from rmhdag.services.submissions import CheckNeeded, ChecksNeeded, Submission, submit_many
from rmhdag.workflow.definition import WorkflowDefinition
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform


class Large(list[str]):
    """Parameters of some megabytes; unlike a list, somebody can watch it go."""


def ask_for_a_check(
    definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
) -> dict[str, Any]:
    raise CheckNeeded(params)


def test_parameters_that_have_to_be_checked_are_not_kept_by_a_cycle(platform: Platform) -> None:
    """Twenty inputs of 7 MB took the API to 1,450 MB."""
    platform.register(workflow(one=task()))
    gc.disable()
    try:
        assert submit_large(platform)() is None
    finally:
        gc.enable()


def submit_large(platform: Platform) -> weakref.ref[Large]:
    large = Large(["x"])
    try:
        submit_many(
            platform.conn,
            [Submission(workflow_id="under_test", input_params={"items": large}, submitted_by="me")],
            complete=ask_for_a_check,
        )
    except ChecksNeeded:  # `pytest.raises` would be a cycle of its own
        return weakref.ref(large)
    pytest.fail("nothing had to be checked")

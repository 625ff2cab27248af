"""Refusals of the API in the words of the command line: what does not exist, and which parameters are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.parameters import refuse
from rmhdag.client import InvalidRequest, NotFound


@contextmanager
def missing(message: str, remedy: str) -> Iterator[None]:
    """What does not exist, in these words."""
    try:
        yield
    except NotFound:
        raise CommandFailed(message, remedy=remedy, code=ExitCode.NOT_FOUND) from None


@contextmanager
def missing_key(key_id: str) -> Iterator[None]:
    """What cannot be the id of a key is none either."""
    try:
        yield
    except (NotFound, InvalidRequest):
        remedy = "`rmhdag keys list --all` shows them."
        raise CommandFailed(f"there is no key {key_id!r}", remedy=remedy, code=ExitCode.NOT_FOUND) from None


@contextmanager
def missing_workflow(workflow_id: str) -> Iterator[None]:
    try:
        yield
    except (NotFound, InvalidRequest):
        remedy = "`rmhdag workflows list --all` shows them, retired ones too."
        raise CommandFailed(f"there is no workflow {workflow_id!r}", remedy=remedy, code=ExitCode.NOT_FOUND) from None


@contextmanager
def refused_parameters(workflow_id: Callable[[], str]) -> Iterator[None]:
    """Each with its place, without the name of the field that holds them all."""
    try:
        yield
    except InvalidRequest as error:
        if error.code not in ("invalid_parameters", "checks_failed"):
            raise
        wrong = [(place.pointer.removeprefix("/input_params"), place.detail) for place in error.errors]
        raise refuse(wrong, workflow_id()) from None


def no_node(job_id: str, node_id: str, remedy: str) -> CommandFailed:
    return CommandFailed(f"job {job_id} has no node {node_id!r}", remedy=remedy, code=ExitCode.NOT_FOUND)

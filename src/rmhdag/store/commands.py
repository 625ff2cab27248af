"""What people ask of jobs: a row that says so, and word of it to the job's owner, in one statement."""

from __future__ import annotations

from typing import NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict

from rmhdag.models.columns import Id, Name, Namespace, SmallJsonObject
from rmhdag.models.jobs import CommandKind, CommandOutcome
from rmhdag.models.states import JobStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class Command(BaseModel):
    """What is asked; small enough to stand in an inbox row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command_id: Id
    namespace: Namespace
    job_id: Id
    kind: CommandKind
    issued_by: Name
    body: SmallJsonObject


class Answer(NamedTuple):
    """`outcome` None: not answered yet; if the job has ended by now, it never will be."""

    kind: CommandKind
    outcome: CommandOutcome | None
    reason: str | None
    job_status: JobStatus
    job_has_ended: bool


def issue_command(conn: Conn, command: Command) -> JobStatus | None:
    """The job's status; None if there is no such job. A job that has ended is told nothing."""
    parameters = {
        "command_id": command.command_id,
        "namespace": command.namespace,
        "job_id": command.job_id,
        "kind": command.kind,
        "issued_by": command.issued_by,
        "body": orjson.dumps(command.body).decode(),
    }
    row = conn.execute(SQL["issue_command"], parameters).fetchone()
    return None if row is None else JobStatus(row[0])


def read_answer(conn: Conn, command_id: str) -> Answer | None:
    row = conn.execute(SQL["read_answer"], {"command_id": command_id}).fetchone()
    if row is None:
        return None
    kind, outcome, reason, status, has_ended = row
    return Answer(
        CommandKind(kind), None if outcome is None else CommandOutcome(outcome), reason, JobStatus(status), has_ended
    )

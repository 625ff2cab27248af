"""`rmhdag decide`: approve or reject what a job waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmhdag.cli.cancel import ReasonOption, checked_reason, tell_answer
from rmhdag.cli.options import AsOption, JobArgument, JsonOption, NamespaceOption, SchemaOption, UrlOption


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


def register(app: typer.Typer) -> None:
    app.command(short_help="Approve or reject what a job waits for.")(decide)


def decide(
    job_id: JobArgument,
    node_id: Annotated[str, typer.Argument(metavar="NODE", help="The approval.")],
    decision: Annotated[Decision, typer.Argument(help="What you decide.")],
    reason: ReasonOption = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Approve or reject what an approval node waits for. Exit code 6 if it does not wait.

    \b
    Examples:
      rmhdag decide 0198f3c2 release approve
      rmhdag decide 0198f3c2 release reject --reason "clouds over the area"
    """
    from rmhdag.cli.platform import connected, find_job, who
    from rmhdag.orchestrator.commands import decide as decide_node

    with connected(database_url, schema) as platform:
        full_id = find_job(platform.conn, namespace, job_id)
        answer = decide_node(
            platform.conn,
            full_id,
            node_id,
            approved=decision is Decision.APPROVE,
            issued_by=who(issued_by),
            reason=checked_reason(reason),
            namespace=namespace,
        )
        tell_answer(platform, full_id, answer, as_json=as_json)

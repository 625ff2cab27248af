"""`rmhdag decide`: approve or reject what a job waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmhdag.cli.cancel import ReasonOption, checked_reason, tell_answer
from rmhdag.cli.options import AsOption, JobArgument, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption


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
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Approve or reject what an approval node waits for. Exit code 6 if it does not wait.

    \b
    Examples:
      rmhdag decide 0198f3c2 release approve
      rmhdag decide 0198f3c2 release reject --reason "clouds over the area"
    """
    from rmhdag.cli.platform import connected
    from rmhdag.models.api.nodes import Decision as Wanted

    wanted = Wanted(decision=decision.value, reason=checked_reason(reason))
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        full_id = platform.find_job(job_id)
        answer = platform.decide(full_id, node_id, wanted)
        tell_answer(platform, full_id, answer, as_json=as_json)

"""`rmhdag decide`: approve or reject what a job waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmhdag.cli.cancel import ReasonOption, checked_reason, tell_answer
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import AsOption, JobArgument, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.models.api.nodes import Decision as Wanted
from rmhdag.models.reviews import read_clearance


class Decision(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


def register(app: typer.Typer) -> None:
    app.command(short_help="Approve or reject a waiting approval.")(decide)


def decide(
    job_id: JobArgument,
    node_id: Annotated[str, typer.Argument(metavar="NODE", help="Approval node.")],
    decision: Annotated[Decision, typer.Argument(help="Your decision.")],
    reason: ReasonOption = None,
    clearance: Annotated[
        str | None,
        typer.Option(
            "--clearance",
            "-c",
            metavar="LEVEL",
            help="Who may see the revision that the job makes: public or restricted (OUO means restricted). Needed to "
            "approve a job whose content is reviewed.",
        ),
    ] = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Approve or reject a waiting approval node. If its job makes a revision that is reviewed, this decides about the
    revision, too. If the workflow names approvers, only they can decide: use a key with one of these names, or with the
    database `--as NAME`. Exit code 6 if you may not decide, or if the node is not waiting.

    \b
    Examples:
      rmhdag decide 0198f3c2 release approve
      rmhdag decide 0198f3c2 release approve --as data-stewards
      rmhdag decide 0198f3c2 release approve --clearance public
      rmhdag decide 0198f3c2 release reject --reason "clouds over the area"
    """
    try:
        level = None if clearance is None else read_clearance(clearance)
    except ValueError as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from None
    body = Wanted(decision=decision.value, reason=checked_reason(reason), clearance=level)
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        full_id = platform.find_job(job_id)
        answer = platform.decide(full_id, node_id, body)
        tell_answer(platform, full_id, answer, as_json=as_json)

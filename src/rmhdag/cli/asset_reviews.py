"""`rmhdag asset approve|reject|revoke|clear`: decisions about the content of a revision."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.cancel import checked_reason
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say
from rmhdag.models.api.assets import RevisionSummary
from rmhdag.models.api.reviews import DecisionView
from rmhdag.models.reviews import read_clearance

SHORTEST_CONTENT = 8
NEEDED_STATES = {
    "approve": "waiting for a decision",
    "reject": "waiting for a decision",
    "revoke": "approved",
    "clear": "approved and restricted",
}
AssetArgument = Annotated[str, typer.Argument(metavar="ASSET", help="Asset id.")]
RevisionOption = Annotated[
    int | None,
    typer.Option(
        "--revision",
        "-r",
        metavar="N",
        min=1,
        max=2**31 - 1,
        help="Revision to decide about (default: the only one that this can be decided about).",
    ),
]
ContentOption = Annotated[
    str | None,
    typer.Option(
        "--content",
        metavar="HASH",
        help="Content hash that you have reviewed, or its first 8 characters or more; refused if the revision has "
        "another one by now (default: the one it has now).",
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which the submitter reads.")]
OptionalReason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Reason to record with the decision.")
]


def register(group: typer.Typer) -> None:
    group.command("approve", short_help="Approve a revision: it is served from now on.")(approve)
    group.command("reject", short_help="Reject a revision: it is never served.")(reject)
    group.command("revoke", short_help="Take the approval of a revision back.")(revoke)
    group.command("clear", short_help="Make approved content public.")(clear)


def approve(
    asset_id: AssetArgument,
    clearance: Annotated[
        str,
        typer.Option(
            "--clearance", "-c", metavar="LEVEL", help="Who may see it: public or restricted (OUO means restricted)."
        ),
    ],
    revision: RevisionOption = None,
    content: ContentOption = None,
    reason: OptionalReason = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Approve a revision that waits for its review: it is served from now on. Exit code 6 if it does not wait, or has
    other content than you have reviewed.

    \b
    Examples:
      rmhdag asset approve b8a9f715dbb64fd5c56e7783c6820a61 --revision 2 --clearance public
      rmhdag asset approve b8a9f715dbb64fd5c56e7783c6820a61 -r 2 -c OUO --content 5f0c6a528d0f4c38
    """
    try:
        level = read_clearance(clearance)
    except ValueError as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        number, content_hash = find_target(platform, asset_id, "approve", revision, content)
        decided = platform.client.approve(
            asset_id, number, content_hash=content_hash, clearance=level, reason=checked_reason(reason)
        )
    tell(decided, as_json=as_json)


def reject(
    asset_id: AssetArgument,
    reason: ReasonOption,
    revision: RevisionOption = None,
    content: ContentOption = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Reject a revision that waits for its review: it is never served. Exit code 6 if it does not wait.

    \b
    Examples:
      rmhdag asset reject b8a9f715dbb64fd5c56e7783c6820a61 --revision 2 --reason "clouds over the area"
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        number, content_hash = find_target(platform, asset_id, "reject", revision, content)
        decided = platform.client.reject(
            asset_id, number, content_hash=content_hash, reason=checked_reason(reason) or ""
        )
    tell(decided, as_json=as_json)


def revoke(
    asset_id: AssetArgument,
    reason: ReasonOption,
    revision: RevisionOption = None,
    content: ContentOption = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Take the approval of a revision back: the newest one that is still approved is served again, or none. Its files
    stay. Exit code 6 if it is not approved.

    \b
    Examples:
      rmhdag asset revoke b8a9f715dbb64fd5c56e7783c6820a61 --revision 2 --reason "wrong licence"
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        number, content_hash = find_target(platform, asset_id, "revoke", revision, content)
        decided = platform.client.revoke(
            asset_id, number, content_hash=content_hash, reason=checked_reason(reason) or ""
        )
    tell(decided, as_json=as_json)


def clear(
    asset_id: AssetArgument,
    revision: RevisionOption = None,
    content: ContentOption = None,
    reason: OptionalReason = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make an approved revision public that was restricted. Exit code 6 if it is not approved, or public already.

    \b
    Examples:
      rmhdag asset clear b8a9f715dbb64fd5c56e7783c6820a61 --revision 2
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        number, content_hash = find_target(platform, asset_id, "clear", revision, content)
        decided = platform.client.clear(asset_id, number, content_hash=content_hash, reason=checked_reason(reason))
    tell(decided, as_json=as_json)


def find_target(
    platform: Operations, asset_id: str, step: str, revision: int | None, content: str | None
) -> tuple[int, str]:
    """The revision and its whole content hash, which the server compares again."""
    if revision is None:
        only = find_only_revision(platform, asset_id, step)
        revision, current = only.revision, only.content_hash
        say(f"revision {revision} is the only one to {step}, with content {(current or 'none')[:16]}")
    else:
        current = platform.revision(asset_id, revision).content_hash
    if content is not None and len(content) < SHORTEST_CONTENT:
        raise CommandFailed(f"write at least {SHORTEST_CONTENT} characters of the content hash", code=ExitCode.USAGE)
    if content is not None and not (current or "").startswith(content.lower()):
        raise CommandFailed(
            f"the content of revision {revision} is not {content} but {(current or 'none')[:16]}",
            remedy="Look at it again, and decide about the content that it has now.",
            code=ExitCode.CONFLICT,
        )
    # A revision without content is refused by the server, which knows why it has none.
    return revision, current or "0" * 64


def find_only_revision(platform: Operations, asset_id: str, step: str) -> RevisionSummary:
    """The one that the step can be taken for; of several, the caller has to name one."""
    platform.asset(asset_id)
    fits = [
        revision
        for revision in platform.client.revisions(asset_id)
        if revision.status == "completed" and can_take(revision, step)
    ]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise CommandFailed(
            f"no revision of asset {asset_id} is {NEEDED_STATES[step]}",
            remedy=f"`rmhdag asset {asset_id}` lists its revisions and their reviews.",
            code=ExitCode.CONFLICT,
        )
    names = ", ".join(f"{revision.revision} (content {(revision.content_hash or 'none')[:16]})" for revision in fits)
    raise CommandFailed(
        f"{len(fits)} revisions of asset {asset_id} are {NEEDED_STATES[step]}: {names}",
        remedy="Name one with --revision.",
        code=ExitCode.USAGE,
    )


def can_take(revision: RevisionSummary, step: str) -> bool:
    if step in ("approve", "reject"):
        return revision.review_state == "pending_review"
    return revision.review_state == "approved" and (step == "revoke" or revision.clearance == "restricted")


def tell(decided: DecisionView, *, as_json: bool) -> None:
    if as_json:
        emit_json(decided.model_dump())
        return
    served = f"revision {decided.served_revision} is served" if decided.served_revision else "nothing is served"
    clearance = f" and {decided.clearance}" if decided.review_state == "approved" else ""
    say(f"revision {decided.revision} of asset {decided.asset_id} is {decided.review_state}{clearance}; {served}")
    for notice in decided.notices:
        say(notice)

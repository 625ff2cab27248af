"""`rmhdag keys`: who may call the HTTP API; made, rotated and revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.models.scopes import Scope

if TYPE_CHECKING:
    from rmhdag.models.api.keys import KeyMade

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="As `rmhdag keys list` shows it.")]
ExpiresOption = Annotated[
    float | None, typer.Option("--expires", metavar="DAYS", min=0.001, max=3650, help="How long the key lives.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keys for the HTTP API.")
    group.command("create", short_help="Make a key.")(create)
    group.command("list", short_help="List keys and sessions.")(list_all)
    group.command("rotate", short_help="Make the next key of the same holder.")(rotate)
    group.command("revoke", short_help="End a key at once.")(revoke)
    app.add_typer(group, name="keys")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will hold it.")],
    scopes: Annotated[
        list[Scope],
        typer.Option(
            "--scope", help="What it may do; several times. `admin` includes all but `worker` and `platform`."
        ),
    ],
    expires: ExpiresOption = None,
    created_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make a key and print it. It is shown this once: only a hash of it is stored.

    \b
    Examples:
      rmhdag keys create dashboard --scope read
      rmhdag keys create ci --scope read --scope submit --expires 90
      rmhdag keys create edge-workers --scope worker --namespace north --json
    """
    from pydantic import TypeAdapter, ValidationError

    from rmhdag.cli.platform import connected
    from rmhdag.cli.setting_types import Name
    from rmhdag.models.api.keys import KeyRequest

    try:
        wanted = KeyRequest(name=name, scopes=sorted(set(scopes)), expires_days=expires)
        TypeAdapter(Name | None).validate_python(namespace)
    except ValidationError:
        raise CommandFailed(
            "a name begins with a letter or digit and has at most 64 of A-Z a-z 0-9 . _ - (a holder's also @ : + and "
            "spaces)",
            code=ExitCode.USAGE,
        ) from None
    with connected(url, database_url, schema, namespace=namespace, name=created_by) as platform:
        show_once(platform.create_key(wanted), as_json=as_json)


def list_all(
    dead_too: Annotated[bool, typer.Option("--all", help="Also those that are revoked or have expired.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List keys and the sessions of browsers, without their secrets, which are nowhere.

    \b
    Examples:
      rmhdag keys list
      rmhdag keys list --all --json
    """
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_age, show_moment

    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.keys(dead_too=dead_too)
    show_listing(
        "keys",
        lines,
        ("KEY_ID", "NAME", "KIND", "STATE", "SCOPES", "USED", "EXPIRES", "MADE BY"),
        lambda line: (
            line.key_id,
            line.name,
            line.kind,
            line.state,
            ",".join(line.scopes),
            "never" if line.last_used_at is None else show_age(line.last_used_at),
            "never" if line.expires_at is None else show_moment(line.expires_at),
            line.created_by,
        ),
        as_json=as_json,
        nothing="no keys; `rmhdag keys create NAME --scope read` makes one",
    )


def rotate(
    key_id: KeyArgument,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="HOURS", min=0, max=720, help="How long the old key lives on.")
    ] = 24.0,
    expires: ExpiresOption = None,
    created_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make the next key of the same holder, with the same scopes, and print it. The old one works until the overlap
    ends; no holder has more than two.

    \b
    Examples:
      rmhdag keys rotate 0f3c9d21a7b8e654
      rmhdag keys rotate 0f3c9d21a7b8e654 --overlap 0
    """
    from rmhdag.cli.platform import connected
    from rmhdag.models.api.keys import RotationRequest

    wanted = RotationRequest(overlap_hours=overlap, expires_days=expires)
    with connected(url, database_url, schema, namespace=namespace, name=created_by) as platform:
        show_once(platform.rotate_key(key_id, wanted), as_json=as_json)


def revoke(
    key_id: KeyArgument,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """End a key or a session: the next call with it is refused.

    \b
    Examples:
      rmhdag keys revoke 0f3c9d21a7b8e654
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace) as platform:
        line = platform.revoke_key(key_id)
    if as_json:
        emit_json(line.model_dump())
    else:
        say(f"key {key_id} of {line.name} opens nothing any more")


def show_once(made: KeyMade, *, as_json: bool) -> None:
    if as_json:
        emit_json(made.model_dump())
        return
    say(f"key {made.key_id} of {made.name} may {', '.join(made.scopes)} in {made.namespace}; it is shown this once:")
    emit(f"{made.key}\n")

"""`rmhdag keys`: who may call the HTTP API; made, rotated and revoked."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import show_age, show_moment
from rmhdag.client import calls
from rmhdag.models.api.keys import KeyMade, KeyRequest, RotationRequest
from rmhdag.models.scopes import Scope
from rmhdag.models.setting_types import Name

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Key id, as shown by `rmhdag keys list`.")]
ExpiresOption = Annotated[
    float | None, typer.Option("--expires", metavar="DAYS", min=0.001, max=3650, help="Lifetime of the key.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Create, list, rotate and revoke keys for the HTTP API."
    )
    group.command("create", short_help="Create a key.")(create)
    group.command("list", short_help="List keys and sessions.")(list_all)
    group.command("rotate", short_help="Replace a key with a new one.")(rotate)
    group.command("revoke", short_help="Revoke a key immediately.")(revoke)
    app.add_typer(group, name="keys")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key's owner.")],
    scopes: Annotated[
        list[Scope],
        typer.Option(
            "--scope", help="Scope of the key; may be repeated. `admin` includes all but `worker` and `platform`."
        ),
    ],
    expires: ExpiresOption = None,
    max_priority: Annotated[
        int | None,
        typer.Option(min=0, max=10, help="Highest priority of jobs that it submits (default: the namespace's)."),
    ] = None,
    created_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Create a key and print it. It is shown only once: the database stores only its hash.

    \b
    Examples:
      rmhdag keys create dashboard --scope read
      rmhdag keys create ci --scope read --scope submit --expires 90
      rmhdag keys create nightly --scope submit --max-priority 2
      rmhdag keys create edge-workers --scope worker --namespace north --json
    """
    try:
        body = KeyRequest(name=name, scopes=sorted(set(scopes)), expires_days=expires, max_priority=max_priority)
        TypeAdapter(Name | None).validate_python(namespace)
    except ValidationError:
        raise CommandFailed(
            "a name begins with a letter or digit and has at most 64 of A-Z a-z 0-9 . _ - (a holder's also @ : + and "
            "spaces)",
            code=ExitCode.USAGE,
        ) from None
    with connected(url, database_url, schema, namespace=namespace, name=created_by) as platform:
        show_once(platform.client.call(calls.create_key(body)), as_json=as_json)


def list_all(
    dead_too: Annotated[bool, typer.Option("--all", help="Include revoked and expired ones.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List keys and browser sessions. Their secrets are not stored and cannot be shown.

    \b
    Examples:
      rmhdag keys list
      rmhdag keys list --all --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(platform.client.keys(dead_too=dead_too))
    show_listing(
        "keys",
        lines,
        ("KEY_ID", "NAME", "KIND", "STATE", "SCOPES", "PRIORITY", "USED", "EXPIRES", "MADE BY"),
        lambda line: (
            line.key_id,
            line.name,
            line.kind,
            line.state,
            ",".join(line.scopes),
            "-" if line.max_priority is None else str(line.max_priority),
            "never" if line.last_used_at is None else show_age(line.last_used_at),
            "never" if line.expires_at is None else show_moment(line.expires_at),
            line.created_by,
        ),
        as_json=as_json,
        nothing="no keys; `rmhdag keys create NAME --scope read` creates one",
    )


def rotate(
    key_id: KeyArgument,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="HOURS", min=0, max=720, help="How long the old key stays valid.")
    ] = 24.0,
    expires: ExpiresOption = None,
    created_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Create a new key with the same name and scopes, and print it. The old key works until the overlap ends; there are
    never more than two valid keys.

    \b
    Examples:
      rmhdag keys rotate 0f3c9d21a7b8e654
      rmhdag keys rotate 0f3c9d21a7b8e654 --overlap 0
    """
    body = RotationRequest(overlap_hours=overlap, expires_days=expires)
    with connected(url, database_url, schema, namespace=namespace, name=created_by) as platform:
        show_once(platform.rotate_key(key_id, body), as_json=as_json)


def revoke(
    key_id: KeyArgument,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Revoke a key or a session: the next call with it is refused.

    \b
    Examples:
      rmhdag keys revoke 0f3c9d21a7b8e654
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        line = platform.revoke_key(key_id)
    if as_json:
        emit_json(line.model_dump())
    else:
        say(f"key {key_id} of {line.name} is revoked")


def show_once(key: KeyMade, *, as_json: bool) -> None:
    if as_json:
        emit_json(key.model_dump())
        return
    say(f"key {key.key_id} of {key.name} may {', '.join(key.scopes)} in {key.namespace}; it is shown only once:")
    emit(f"{key.key}\n")

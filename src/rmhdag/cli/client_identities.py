"""`rmhdag clients bind`, `unbind` and `identities`: whose tokens the gateway takes for those of a client."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.keys import ExpiresOption
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say
from rmhdag.cli.tables import show_age, show_moment
from rmhdag.models.api.clients import IdentityRequest
from rmhdag.models.clients import IdentityKind
from rmhdag.models.scopes import Scope

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT", help="Name of the client.")]


def register(group: typer.Typer) -> None:
    group.command("identities", short_help="List whose tokens are those of a client.")(list_all)
    group.command("bind", short_help="Accept tokens of an application as those of a client.")(bind)
    group.command("unbind", short_help="Refuse the tokens of an identity.")(unbind)


def list_all(
    client: ClientArgument,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the applications and people whose tokens the gateway takes for those of a client, beside its keys.

    \b
    Examples:
      rmhdag clients identities acme
      rmhdag clients identities acme --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.client.client_identities(client)
    show_listing(
        "identities",
        lines,
        ("IDENTITY_ID", "KIND", "VALUE", "ISSUER", "SCOPES", "USED", "EXPIRES", "MADE BY"),
        lambda line: (
            line.identity_id,
            line.kind,
            line.value,
            line.issuer,
            ",".join(line.scopes),
            "never" if line.last_used_at is None else show_age(line.last_used_at),
            "never" if line.expires_at is None else show_moment(line.expires_at),
            line.created_by,
        ),
        as_json=as_json,
        nothing=f"{client} has keys only; `rmhdag clients bind {client} --issuer URL --application ID --scope b2b` "
        "lets it use tokens",
    )


def bind(
    client: ClientArgument,
    issuer: Annotated[
        str, typer.Option("--issuer", metavar="URL", help="Issuer of the tokens: one of RMHDAG_PARTNER_ISSUERS.")
    ],
    scopes: Annotated[list[Scope], typer.Option("--scope", help="b2b, ops, reviewer or sandbox; may be repeated.")],
    application: Annotated[
        str | None,
        typer.Option(
            "--application", metavar="ID", help="Tokens that this application gets for itself (azp, appid, client_id)."
        ),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="SUB", help="Instead: tokens with this subject (sub).")
    ] = None,
    expires: ExpiresOption = None,
    created_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let a client of the gateway use tokens of an OIDC issuer instead of a key, for example those that an Entra
    application gets with client credentials. Gateways follow within seconds. All namespaces share the issuers, so a key
    needs the scope platform beside admin.

    \b
    Examples:
      rmhdag clients bind acme --issuer https://login.example.org/v2.0 --application 5d6f… --scope b2b
      rmhdag clients bind acme --issuer https://login.example.org/v2.0 --subject 9c1e… --scope b2b --expires 90
    """
    if (application is None) == (subject is None):
        raise CommandFailed("name --application or --subject", code=ExitCode.USAGE)
    try:
        IdentityRequest(
            issuer=issuer,
            kind=IdentityKind.APPLICATION if subject is None else IdentityKind.SUBJECT,
            value=application or subject or "",
            scopes=scopes,
            expires_days=expires,
        )
    except ValidationError as error:
        line = error.errors()[0]
        message = f"{'.'.join(str(part) for part in line['loc'])}: {line['msg']}"
        raise CommandFailed(message, code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, namespace=namespace, name=created_by) as platform:
        identity = platform.client.bind_client(
            client, issuer, scopes, application=application, subject=subject, expires_days=expires
        )
    if as_json:
        emit_json(identity.model_dump(mode="json"))
        return
    say(f"tokens of {identity.kind} {identity.value} are those of {client}: {', '.join(identity.scopes)}")
    typer.echo(identity.identity_id)


def unbind(
    client: ClientArgument,
    identity_id: Annotated[str, typer.Argument(metavar="IDENTITY_ID", help="As `rmhdag clients identities` shows it.")],
    removed_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Refuse the tokens of an identity from now on; the client's keys and other identities stay valid.

    \b
    Examples:
      rmhdag clients unbind acme 0f1e2d3c4b5a6978
    """
    with connected(url, database_url, schema, namespace=namespace, name=removed_by) as platform:
        identity = platform.client.unbind_client(client, identity_id)
    if as_json:
        emit_json(identity.model_dump(mode="json"))
        return
    say(f"the gateway refuses tokens of {identity.kind} {identity.value}")

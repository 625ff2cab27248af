"""`rmhdag services`: external services that are notified of approved content, and the calls to them."""

from __future__ import annotations

import os
from itertools import islice
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say
from rmhdag.cli.parameters import read_parameters
from rmhdag.cli.tables import show_age
from rmhdag.models.service_calls import CallStatus, ServiceKind
from rmhdag.models.service_settings import PipelineSettings

SECRET_VARIABLE = "RMHDAG_SERVICE_SECRET"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the service.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True, rich_markup_mode=None, help="Set up external services and show calls to them."
    )
    group.callback()(services)
    group.command("list", short_help="List external services.")(list_services)
    group.command("set", short_help="Set up or change an external service.")(set_service)
    group.command("delete", short_help="Delete an external service and its calls.")(delete_service)
    group.command("calls", short_help="List calls to a service.")(list_calls)
    group.command("retry", short_help="Retry calls that were given up.")(retry)
    app.add_typer(group, name="services")


def services(
    context: typer.Context,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set up services that are notified when public content is approved or withdrawn; alone it lists them.

    \b
    Examples:
      rmhdag services
      rmhdag services calls portal --status dead
    """
    if context.invoked_subcommand is None:
        list_services(namespace, as_json, url, database_url, schema)


def list_services(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List external services: kind, URL, whether they are enabled, and failed tries since the last success.

    \b
    Examples:
      rmhdag services list --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.client.services()
    show_listing(
        "services",
        lines,
        ("SERVICE", "KIND", "ENABLED", "FAILURES", "URL"),
        lambda line: (line.name, line.kind, "yes" if line.enabled else "no", line.failures, line.url),
        as_json=as_json,
        nothing="no external services",
        right=("FAILURES",),
    )


def set_service(
    name: NameArgument,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="webhook, ddh or adf.")],
    address: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="URL of the service (default for adf: Azure's).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the kind, such as factory=maps; repeatable."),
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Do not notify it.")] = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set up an external service, or change it. Its secret is read from RMHDAG_SERVICE_SECRET: the key that signs
    messages (generated and shown once if not given), or the token or client secret of an adf service. Without it, a
    service keeps its secret.

    \b
    Examples:
      rmhdag services set portal --kind webhook --to https://portal.example.org/hook
      rmhdag services set adf --kind adf --set subscription_id=0f1e --set resource_group=maps --set factory=maps
    """
    if kind not in list(ServiceKind):
        raise CommandFailed(
            f"--kind: there is no kind {kind!r}", remedy=f"There are {', '.join(ServiceKind)}.", code=ExitCode.USAGE
        )
    # Ids of subscriptions and tenants may look like numbers; of all settings only the pause is one.
    declared = {name: {"type": "string"} for name in PipelineSettings.model_fields if name != "poll_seconds"}
    values = read_parameters(declared, settings or [], None)
    secret = os.environ.get(SECRET_VARIABLE) or None
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.client.put_service(
            name, kind, url=address, settings=values, secret=secret, enabled=not disabled
        )
    if as_json:
        emit_json(done.model_dump())
        return
    say(f"service {name} is {'set up' if done.is_new else 'changed'}")
    if done.new_secret is not None:
        say(f"its secret, shown only now: {done.new_secret}")


def delete_service(
    name: NameArgument,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Delete an external service and its calls. What was copied outside stays there. To keep the calls, use
    `services set --disabled` instead.

    \b
    Examples:
      rmhdag services delete portal
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.client.delete_service(name)
    emit_json(done.model_dump()) if as_json else say(
        f"deleted service {name}; {done.calls_not_delivered} calls that waited are not made"
    )


def list_calls(
    name: NameArgument,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="pending, delivered, dead or cancelled.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, metavar="N", help="Maximum number of entries.")
    ] = 100,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List calls to a service, newest first: what was announced, the status, and the pipeline run.

    \b
    Examples:
      rmhdag services calls adf
      rmhdag services calls portal --status dead --json
    """
    if status is not None and status not in list(CallStatus):
        raise CommandFailed(
            f"--status: there is no status {status!r}",
            remedy=f"There are {', '.join(CallStatus)}.",
            code=ExitCode.USAGE,
        )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(islice(platform.client.service_calls(name, status=status), limit))
    show_listing(
        "calls",
        lines,
        ("CALL", "ASSET", "REVISION", "ACTION", "STATUS", "TRIES", "RUN", "SINCE", "ANSWER"),
        lambda line: (
            line.call_id,
            line.asset_id,
            line.revision,
            line.action,
            line.status,
            line.attempts,
            line.run_id or "",
            show_age(line.created_at),
            line.last_error or "",
        ),
        as_json=as_json,
        nothing=f"no calls to {name}",
        right=("REVISION", "TRIES"),
    )


def retry(
    name: NameArgument,
    calls: Annotated[list[str], typer.Argument(metavar="CALL...", help="Call ids, as shown by `services calls`.")],
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Retry calls that were given up, with the schedule from its beginning. Exit code 6 if a call was not given up.

    \b
    Examples:
      rmhdag services retry adf 0198f3c27c8b7d3a9f20c4de51b6a7e8
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        for call_id in calls:
            platform.client.retry_service_call(name, call_id)
        if not platform.orchestrators_alive():
            say("no orchestrator is running, so they wait until one is started")
    emit_json({"retried": calls}) if as_json else say(
        "1 call is made again" if len(calls) == 1 else f"{len(calls)} calls are made again"
    )

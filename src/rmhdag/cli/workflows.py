"""`rmhdag workflows`: what is registered; register more, retire some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmhdag.cli.completion import complete_workflow
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say, show_json
from rmhdag.cli.submit import unknown_workflow
from rmhdag.cli.tables import indent_lines, lay_out, on_one_line, show_age, show_moment


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True, rich_markup_mode=None, help="List, show, register and retire workflows."
    )
    group.callback()(workflows)
    group.command("list", short_help="List registered workflows.")(list_workflows)
    group.command("show", short_help="Show a workflow's inputs and nodes.")(show_workflow)
    group.command("register", short_help="Register workflow files.")(register_workflows)
    group.command("retire", short_help="Stop accepting new jobs of a workflow.")(retire_workflow)
    group.command("restore", short_help="Accept jobs of a retired workflow again.")(restore_workflow)
    app.add_typer(group, name="workflows")


def workflows(
    context: typer.Context,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List, show, register and retire workflows; alone it lists them.

    \b
    Examples:
      rmhdag workflows
      rmhdag workflows show hello_world
      rmhdag workflows register flow.yaml
      rmhdag workflows retire old_flow
    """
    if context.invoked_subcommand is None:
        list_workflows(
            namespace=namespace, as_json=as_json, url=url, database_url=database_url, schema=schema, retired_too=False
        )


def list_workflows(
    retired_too: Annotated[bool, typer.Option("--all", help="Include retired workflows.")] = False,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List registered workflows, each with its latest version.

    \b
    Examples:
      rmhdag workflows list
      rmhdag workflows list --all --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(platform.client.workflows(retired_too=retired_too))
    headers = ("WORKFLOW", "VERSION", "REGISTERED", "BY", "DESCRIPTION")
    show_listing(
        "workflows",
        lines,
        headers,
        lambda line: (
            line.workflow_id,
            line.version,
            show_age(line.registered_at),
            line.registered_by,
            f"(retired) {line.description or line.name}" if line.retired_at else line.description or line.name,
        ),
        as_json=as_json,
        nothing="no workflow is registered; `rmhdag workflows register FILE` registers one, `rmhdag up` registers "
        "those of rmhdag",
    )


def show_workflow(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", autocompletion=complete_workflow)],
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Workflow version to use (default: latest).")
    ] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show a workflow: its inputs, with types and defaults, and its nodes.

    \b
    Examples:
      rmhdag workflows show fan_out_test
      rmhdag workflows show fan_out_test --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        stored = platform.workflow(workflow, version)
        if stored is None:
            raise unknown_workflow(platform, workflow, version)
    definition = stored.definition
    if as_json:
        emit_json(
            {
                "workflow_id": stored.workflow_id,
                "version": stored.version,
                "hash": stored.hash,
                "definition": definition,
            }
        )
        return
    emit(f"{stored.workflow_id} v{stored.version}  {on_one_line(definition['name'])}\n")
    if stored.retired_at is not None:
        emit(f"retired {show_moment(stored.retired_at)} by {stored.retired_by}: it accepts no new jobs\n")
    if definition.get("description"):
        emit(f"{indent_lines(definition['description'], 2)}\n")
    if definition["inputs"]:
        rows = [
            (name, rules["type"], need(rules), rules.get("description")) for name, rules in definition["inputs"].items()
        ]
        emit("\n" + lay_out(("INPUT", "TYPE", "DEFAULT", "DESCRIPTION"), rows))
    nodes = [
        (name, node["type"], (node.get("task") or {}).get("handler"), (node.get("task") or {}).get("queue"))
        for name, node in definition["nodes"].items()
    ]
    emit("\n" + lay_out(("NODE", "TYPE", "HANDLER", "QUEUE"), nodes))


def need(rules: dict[str, Any]) -> str:
    if rules.get("required"):
        return "(required)"
    return "" if rules.get("default") is None else show_json(rules["default"])


def register_workflows(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH]...", help="Workflow files or folders; - reads stdin.")
    ] = None,
    shipped: Annotated[
        bool,
        typer.Option(
            "--shipped", help="Register the workflows that come with rmhdag, in DAG_WORKER_QUEUE and WORKER_QUEUE."
        ),
    ] = False,
    registered_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Check workflow files and register them, all or none. Running jobs keep the version they started with.

    \b
    Examples:
      rmhdag workflows register flow.yaml
      rmhdag workflows register workflows/
      DAG_WORKER_QUEUE=light WORKER_QUEUE=heavy rmhdag workflows register --shipped

    A registered version cannot change: exit code 6 if it exists with other content, unless RMHDAG_DEVELOPMENT is set.
    """
    from rmhdag.cli.registering import register_files, register_shipped

    if bool(paths) == shipped:
        raise CommandFailed("name files or folders, or --shipped", code=ExitCode.USAGE)
    with connected(url, database_url, schema, namespace=namespace, name=registered_by, ships=shipped) as platform:
        done = register_shipped(platform) if shipped else register_files(platform, paths or [])
    if as_json:
        facts = [
            {"workflow_id": workflow.workflow_id, "version": workflow.version, "nodes": workflow.node_count}
            for workflow in done
        ]
        emit_json({"registered": facts})
        return
    for workflow in done:
        say(f"registered {workflow.workflow_id} v{workflow.version}")


WorkflowArgument = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="Registered workflow.", autocompletion=complete_workflow)
]


def retire_workflow(
    workflow: WorkflowArgument,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Stop accepting new jobs of a workflow, in any version, and no longer list it. Running jobs continue, with their
    child jobs and retries. `restore` brings it back; registering a newer version brings back that version.

    \b
    Examples:
      rmhdag workflows retire old_flow
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        line = platform.retire_workflow(workflow)
    if as_json:
        emit_json(line.model_dump())
        return
    say(f"{workflow} is retired and accepts no new jobs; `rmhdag workflows restore {workflow}` brings it back")


def restore_workflow(
    workflow: WorkflowArgument,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Accept jobs of a retired workflow again, and list it.

    \b
    Examples:
      rmhdag workflows restore old_flow
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        line = platform.restore_workflow(workflow)
    if as_json:
        emit_json(line.model_dump())
        return
    say(f"{workflow} accepts jobs again")

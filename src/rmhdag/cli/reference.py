"""The reference of all commands as Markdown, made from the commands themselves: `python -m rmhdag.cli.reference`."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from rmhdag.cli.app import build_app
from rmhdag.cli.exit_codes import MEANINGS

WIDTH = 96

INTRODUCTION = """\
# The command line

<!-- Made by `python -m rmhdag.cli.reference > docs/cli.md`; a test keeps it up to date. -->

Data goes to stdout, messages go to stderr. `--json` gives one JSON object whose fields do not change their meaning.
Colour appears only in a terminal, and not with `NO_COLOR=1` or `--no-color`. `--debug` shows tracebacks; both flags may
stand anywhere. `-` as a file name reads stdin. Settings come from flags, then the environment, then a file
(`RMHDAG_CONFIG`, `./rmhdag.toml`, `~/.config/rmhdag/config.toml`), then defaults; `rmhdag config show` tells which.
"""

# The objects of `--json`; fields may be added, those that are here keep their meaning. A test compares.
JSON_OBJECTS = {
    "validate": "valid, problem_count, files [file, valid, workflow_id, version, node_count, "
    "problems [file, line, column, code, message, remedy, pointer]]",
    "graph": "title, description, direction, width, height, "
    "nodes [id, type, label, detail, description, layer, x, y, width, height], "
    "edges [source, target, kind, label, label_at, points]",
    "simulate": "ok, start, seeds, steps, failures [seed, invariant, message, trace_tail], operations",
    "simulate --seed": "ok, seed, steps, virtual_seconds, failure, operations, trace",
    "db migrate": "database, schema, applied, up_to_date, steps [kind, title, statements], "
    "refusals [what, where, why, remedy], notices",
    "db status": "database, embedded, running, server_version, schema, up_to_date, pending_steps",
    "db start": "url, folder",
    "doctor": "ok, checks [name, status, value, threshold, remedy]",
    "config show": "settings [name, value, origin, variables, description], warnings",
    "version": "version, python",
}


def reference() -> str:
    lines = [INTRODUCTION, "## Exit codes\n", "| code | meaning |", "|---|---|"]
    lines += [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["\n## JSON objects\n", "| command | fields; those in brackets are of each element |", "|---|---|"]
    lines += [f"| `{command}` | {fields} |" for command, fields in JSON_OBJECTS.items()]
    for path, text in pages():
        lines += [f"\n## `{path}`\n", "```text", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """The help of each command and of each group, in the order of `--help`."""
    root = typer.main.get_command(build_app(completion=False))
    top = typer.Context(root, info_name="rmhdag", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    yield "rmhdag", root.get_help(top)
    stack = [(top, root)]
    while stack:
        context, command = stack.pop(0)
        for name, child in getattr(command, "commands", {}).items():
            inner = typer.Context(child, info_name=name, parent=context, terminal_width=WIDTH)
            yield inner.command_path, child.get_help(inner)
            stack.insert(0, (inner, child))


if __name__ == "__main__":
    print(reference(), end="")

"""A workflow's parameters from the command line: `key=value`, typed by the declared inputs, over a JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed

if TYPE_CHECKING:
    from rmhdag.workflow import InvalidInputs

MAX_READ_BYTES = 64 * 1024 * 1024
TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def read_parameters(
    inputs: Mapping[str, Mapping[str, Any]], pairs: Sequence[str], document: str | None
) -> dict[str, Any]:
    """`inputs` are the declared ones as JSON. What is not of its type is left for the check to complain about."""
    params = {} if document is None else read_document(document)
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise CommandFailed(
                f"{pair!r} is not a parameter", remedy="Write key=value, or --params @file.json.", code=ExitCode.USAGE
            )
        params[name] = read_value(inputs.get(name, {}).get("type"), text, inputs.get(name, {}))
    return params


def read_value(kind: str | None, text: str, declared: Mapping[str, Any]) -> Any:
    if kind == "string":
        return text
    if text.startswith("@"):
        return parse(read_file(text[1:]), text)
    if kind == "boolean":
        return TRUTHS.get(text.lower(), text)
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        value = text
    if kind == "array" and isinstance(value, str) and not text.startswith(("[", "{", '"')):
        inner = declared.get("items") or {"type": "string"}
        return [read_value(inner.get("type"), part.strip(), inner) for part in text.split(",")] if text else []
    return value


def refuse_constant(name: str) -> Any:
    raise ValueError(name)


def read_document(word: str) -> dict[str, Any]:
    """`@file.json`, `-` for stdin, or the JSON itself."""
    if word == "-":
        text = sys.stdin.read(MAX_READ_BYTES)
    elif word.startswith("@"):
        text = read_file(word[1:])
    else:
        text = word
    value = parse(text, "--params")
    if not isinstance(value, dict):
        raise CommandFailed(
            "--params is not a JSON object", remedy='It should look like {"name": "value"}.', code=ExitCode.INVALID
        )
    return value


def read_file(name: str) -> str:
    try:
        with Path(name).open(encoding="utf-8") as stream:
            return stream.read(MAX_READ_BYTES)
    except FileNotFoundError:
        raise CommandFailed(f"{name} does not exist", code=ExitCode.NOT_FOUND) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{name} cannot be read: {error}", code=ExitCode.INVALID) from None


def parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise CommandFailed(f"{where}: nested too deeply", code=ExitCode.INVALID) from None
    except ValueError as error:
        raise CommandFailed(f"{where} is not JSON: {error}", code=ExitCode.INVALID) from None


def refuse(wrong: Sequence[tuple[str, str]], workflow_id: str) -> CommandFailed:
    """`wrong` are places, as pointers into the parameters, and what is wrong there."""
    lines = [f"  {pointer.lstrip('/') or 'the parameters'}: {what}" for pointer, what in wrong]
    return CommandFailed(
        f"the parameters do not fit workflow {workflow_id}:\n" + "\n".join(lines),
        remedy=f"`rmhdag workflows show {workflow_id}` lists its inputs.",
        code=ExitCode.INVALID,
    )


def refuse_inputs(error: InvalidInputs, workflow_id: str) -> CommandFailed:
    return refuse(
        [(problem.pointer, f"{problem.message}. {problem.remedy}") for problem in error.problems], workflow_id
    )

"""`rmhdag label`: change the labels of a job; and how labels are written and shown in other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JobArgument,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.models.api.jobs import JobLabels, LabelChanges
from rmhdag.models.labels import read_filter
from rmhdag.models.limits import LABELS_OF_A_JOB

WRITTEN_AS = "Write KEY=VALUE, with a key of lower-case letters, digits, `.`, `_` and `-`."


def register(app: typer.Typer) -> None:
    app.command(short_help="Change the labels of a job.")(label)


def label(
    job_id: JobArgument,
    changes: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE|KEY-...", help="Labels to put on; KEY- takes one off.")
    ],
    changed_by: AsOption = None,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Change the labels of a job, whatever its status, and print all that it has then. May be repeated.

    \b
    Examples:
      rmhdag label 0198f3c2 aoi=oslo team=gis
      rmhdag label 0198f3c2 aoi-
      rmhdag label 0198f3c2 aoi=bergen --dry-run
    """
    body = read_changes(changes)
    with connected(url, database_url, schema, namespace=namespace, name=changed_by) as platform:
        full_id = platform.find_job(job_id)
        if dry_run:
            before = platform.overview(full_id).labels
            after = {key: value for key, value in before.items() if key not in body.remove} | body.put
            if len(after) > max(LABELS_OF_A_JOB, len(before)):
                raise CommandFailed(
                    f"the job would have {len(after)} labels, and the most is {LABELS_OF_A_JOB}", code=ExitCode.INVALID
                )
            answer = JobLabels(job_id=full_id, labels=after, changed=after != before)
        else:
            answer = platform.label(full_id, body)
    if as_json:
        emit_json({**answer.model_dump(), **({"dry_run": True} if dry_run else {})})
        return
    emit("".join(f"{key}={value}\n" for key, value in sorted(answer.labels.items())))
    if dry_run:
        say(f"job {full_id} would {'have these labels' if answer.changed else 'stay as it is'} (--dry-run)")
    else:
        say(f"job {full_id} {'has these labels now' if answer.changed else 'has these labels already'}")


def read_changes(words: Sequence[str]) -> LabelChanges:
    """`key=value` puts a label on; `key-` takes it off. A value may end with a hyphen."""
    pairs = [word for word in words if "=" in word]
    removed = [word for word in words if "=" not in word]
    wrong = next((word for word in removed if not word.endswith("-") or word == "-"), None)
    if wrong is not None:
        raise CommandFailed(
            f"{wrong!r} is not a change of a label",
            remedy="Write KEY=VALUE to put one on, and KEY- to take one off.",
            code=ExitCode.USAGE,
        )
    try:
        return LabelChanges(put=_pairs(pairs), remove=[word.removesuffix("-") for word in removed])
    except ValidationError as error:
        raise _refused(error) from None


def read_labels(words: Sequence[str]) -> dict[str, str]:
    """Of `--label key=value`."""
    wrong = next((word for word in words if "=" not in word), None)
    if wrong is not None:
        raise CommandFailed(f"{wrong!r} is not a label", remedy=WRITTEN_AS, code=ExitCode.USAGE)
    try:
        return LabelChanges(put=_pairs(words)).put
    except ValidationError as error:
        raise _refused(error) from None


def read_filters(words: Sequence[str]) -> list[str]:
    """Of lists: `key=value`, or `key` for any value."""
    for word in words:
        try:
            read_filter(word)
        except ValueError as error:
            raise CommandFailed(f"--label {word!r}: {error}", remedy=WRITTEN_AS, code=ExitCode.USAGE) from None
    return list(words)


def describe_labels(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key in pairs:
            raise CommandFailed(f"the label {key!r} is given twice", code=ExitCode.USAGE)
        pairs[key] = value
    return pairs


def _refused(error: ValidationError) -> CommandFailed:
    fault = error.errors(include_url=False)[0]
    place = fault["loc"][1] if len(fault["loc"]) > 1 and fault["loc"][0] == "put" else fault["input"]
    text = str(fault["msg"]).removeprefix("Value error, ")
    name = f"label {place!r}: " if isinstance(place, str) else ""
    return CommandFailed(f"{name}{text}", remedy=WRITTEN_AS, code=ExitCode.USAGE)

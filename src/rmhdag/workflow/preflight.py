"""What the `checks` of a workflow say about the inputs of a job: faults, and questions about files in storage.

Nothing is looked up here: the caller, which has the storage, answers the questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from rmhdag.models.json_values import json_pointer
from rmhdag.models.records import Zone
from rmhdag.models.refusals import Kind, Place, Refusal
from rmhdag.workflow.check_models import (
    BlobExists,
    BlobList,
    Check,
    ContainerNotEmpty,
    CrsCheck,
    DataDatabaseCheck,
    ExtensionCheck,
)
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.expressions import (
    ExpressionError,
    Missing,
    compile_condition,
    compile_template,
    resolve_path,
    truth,
)
from rmhdag.workflow.expressions.budget import MAX_WORK
from rmhdag.workflow.expressions.templates import CompiledTemplate
from rmhdag.workflow.problems import MAX_PROBLEMS, shorten

MB = 1_000_000
EPSG = re.compile(r"EPSG:[1-9][0-9]{0,6}")
# Of all checks of one job together.
MOST_QUESTIONS = 1_000
MOST_FAULTS = MAX_PROBLEMS

# A template is read once: reading takes longer than evaluating. None is longer than 4,000 characters.
_template = lru_cache(maxsize=1_000)(compile_template)
_condition = lru_cache(maxsize=1_000)(compile_condition)


class CheckFault(NamedTuple):
    """`code` is one of `models.error_codes`, `pointer` leads into the parameters."""

    code: str
    pointer: str
    sentence: str


class BlobQuestion(NamedTuple):
    """Is there such a file, and how large is it? With a `prefix`, any file whose path begins so will do."""

    zone: str
    container: str
    path: str
    pointer: str
    max_size_mb: float | None = None
    too_large: str | None = None
    is_prefix: bool = False


class BlobAnswer(NamedTuple):
    """`size_bytes` is None if there is no such file, or if any file will do."""

    fault: CheckFault | None
    size_bytes: int | None = None


class ChecksFailed(Refusal):
    """All that the checks of a workflow have found, with the places in the parameters."""

    def __init__(self, workflow_id: str, faults: list[CheckFault]) -> None:
        message = faults[0].sentence if len(faults) == 1 else f"{len(faults)} checks of {workflow_id!r} failed"
        places = [Place(f"/input_params{fault.pointer}", fault.sentence, code=fault.code) for fault in faults]
        super().__init__(Kind.INVALID, "checks_failed", message, places=places)
        self.faults = faults


@dataclass(slots=True)
class Preflight:
    """`faults` are known without storage. `work` is what the templates have cost, see `expressions.budget`."""

    faults: list[CheckFault] = field(default_factory=list)
    questions: list[BlobQuestion] = field(default_factory=list)
    work: int = 0
    # The input that makes a data database necessary; "" if none does, None if it is not.
    needs_postgis: str | None = None


class InputScope:
    """The names that can be read before there is a job."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.work = 0

    def lookup(self, root: str, path: tuple[str | int, ...]) -> Any:
        if root != "inputs":
            raise Missing(f"{root} has no value before the job")
        return resolve_path(self._params, path)


def examine(definition: WorkflowDefinition, params: Mapping[str, Any]) -> Preflight:
    """`params` are complete: with their defaults. All templates together may take as long as one of a job."""
    preflight, scope = Preflight(), InputScope(params)
    for check in definition.checks:
        if scope.work > MAX_WORK or len(preflight.faults) >= MOST_FAULTS:
            break
        try:
            if check.when is None or truth(_condition(check.when).evaluate(scope)):
                _examine(check, scope, preflight)
        except Missing:
            continue  # the input that it is about has no value
        except ExpressionError as error:
            preflight.faults.append(CheckFault("INVALID_PARAMETER", "", f"a check cannot be evaluated: {error}"))
    if scope.work > MAX_WORK:
        preflight.faults.append(CheckFault("INVALID_PARAMETER", "", "the checks take too long with these parameters"))
    preflight.work = scope.work
    return preflight


def blob_fault(question: BlobQuestion, size_bytes: int | None) -> CheckFault | None:
    """What the answer means; None: there is no such file."""
    where = f"container {question.container!r} of zone {question.zone}"
    if size_bytes is None:
        if question.is_prefix:
            below = f" whose path begins with {shorten(question.path, 200)!r}" if question.path else ""
            sentence = f"{where} has no file{below}: upload the files, or check the names"
        else:
            sentence = f"there is no file {shorten(question.path, 200)!r} in {where}: upload it, or check its name"
        return CheckFault("FILE_NOT_FOUND", question.pointer, sentence)
    if question.max_size_mb is not None and size_bytes > question.max_size_mb * MB:
        remedy = question.too_large or "cut it into smaller files"
        name, limit = shorten(question.path, 200), question.max_size_mb
        sentence = f"{name!r} has {size_bytes / MB:,.1f} MB, and at most {limit:,g} MB are accepted: {remedy}"
        return CheckFault("FILE_TOO_LARGE", question.pointer, sentence)
    return None


def postgis_fault(pointer: str) -> CheckFault:
    sentence = (
        "tables need PostGIS, and this platform has no data database; `target: geoparquet` writes files and needs "
        "none. To have one, install postgresql-15-postgis-3 before the first `rmhdag up`, or set RMHDAG_POSTGIS_URL"
    )
    return CheckFault("POSTGIS_NOT_CONFIGURED", pointer, sentence)


def _examine(check: Check, scope: InputScope, preflight: Preflight) -> None:
    match check:
        case BlobExists():
            path, pointer = _text(check.path, scope)
            preflight.questions.append(
                BlobQuestion(*_place(check, scope), path, pointer, check.max_size_mb, check.too_large)
            )
        case BlobList():
            _examine_list(check, scope, preflight)
        case ContainerNotEmpty():
            prefix = "" if check.prefix is None else _text(check.prefix, scope)[0]
            pointer = _pointer(check.container)
            preflight.questions.append(BlobQuestion(*_place(check, scope), prefix, pointer, is_prefix=True))
        case DataDatabaseCheck():
            preflight.needs_postgis = "" if check.when is None else _first_input(_condition(check.when))
        case ExtensionCheck():
            _examine_extension(check, scope, preflight)
        case CrsCheck():
            value, pointer = _value(check.value, scope)
            if not isinstance(value, str) or not EPSG.fullmatch(value):
                sentence = f"{shorten(str(value))!r} is no coordinate reference system: write EPSG:n, such as EPSG:4326"
                preflight.faults.append(CheckFault("INVALID_PARAMETER", pointer, sentence))


def _examine_list(check: BlobList, scope: InputScope, preflight: Preflight) -> None:
    paths, pointer = _value(check.paths, scope)
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        sentence = "a list with the paths of the files is needed"
        preflight.faults.append(CheckFault("INVALID_PARAMETER", pointer, sentence))
        return
    if len(paths) > check.max_count:
        sentence = f"{len(paths):,} files are named, and at most {check.max_count:,} are accepted: order them in parts"
        preflight.faults.append(CheckFault("INVALID_PARAMETER", pointer, sentence))
        return
    if len(preflight.questions) + len(paths) > MOST_QUESTIONS:
        sentence = f"more than {MOST_QUESTIONS:,} files are named in all: order them in parts"
        preflight.faults.append(CheckFault("INVALID_PARAMETER", pointer, sentence))
        return
    place = _place(check, scope)
    preflight.questions += [
        BlobQuestion(*place, path, f"{pointer}/{index}", check.max_size_mb, check.too_large)
        for index, path in enumerate(paths)
    ]


def _examine_extension(check: ExtensionCheck, scope: InputScope, preflight: Preflight) -> None:
    value, pointer = _value(check.path, scope)
    paths: Iterable[Any] = value if isinstance(value, list) else [value]
    for index, path in enumerate(paths):
        if len(preflight.faults) >= MOST_FAULTS:
            return
        if not str(path).lower().endswith(tuple(check.allowed)):
            place = f"{pointer}/{index}" if isinstance(value, list) else pointer
            extension = PurePosixPath(str(path)).suffix or "no extension"
            sentence = (
                f"{shorten(str(path), 200)!r} has {extension}, and accepted are {', '.join(check.allowed)}: convert "
                "the file, or name another one"
            )
            preflight.faults.append(CheckFault("INVALID_FORMAT", place, sentence))


def _place(check: BlobExists | BlobList | ContainerNotEmpty, scope: InputScope) -> tuple[str, str]:
    zone, _ = _text(check.zone, scope)
    container, _ = _text(check.container, scope)
    if zone not in set(Zone):
        raise ExpressionError(f"there is no zone {shorten(zone)!r}: use {', '.join(Zone)}")
    return zone, container


def _text(template: str, scope: InputScope) -> tuple[str, str]:
    value, pointer = _value(template, scope)
    if not isinstance(value, str):
        raise ExpressionError(f"{shorten(template)} gives no text")
    return value, pointer


def _value(template: str, scope: InputScope) -> tuple[Any, str]:
    """Raises Missing if there is none: an input that may be left out is not checked then."""
    value = _template(template).evaluate(scope)
    if value is None:
        raise Missing("the input has no value")
    return value, _pointer(template)


def _pointer(template: str) -> str:
    """The first input that the template reads."""
    return _first_input(_template(template))


def _first_input(compiled: CompiledTemplate) -> str:
    references = sorted(compiled.positions.items(), key=lambda item: item[1])
    return json_pointer(*references[0][0].path) if references else ""

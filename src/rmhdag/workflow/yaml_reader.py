"""Reads YAML text as plain JSON values with positions: YAML 1.2 core scalars, without YAML's dangerous features.

Limits apply while parsing, so a hostile file is refused before it costs anything. Refused are: aliases, anchors,
tags, merge keys, second documents, duplicate keys, keys that are not text, numbers that JSON cannot represent, control
characters, and characters that change the direction of text.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from rmhdag.models.json_values import MAX_INTEGER, MIN_INTEGER, json_pointer
from rmhdag.models.limits import FILE_BYTES
from rmhdag.workflow.problems import Problem, shorten
from rmhdag.workflow.source_map import Mark, Path, Place, SourceMap

MAX_FILE_BYTES = FILE_BYTES
MAX_DEPTH = 32
MAX_YAML_NODES = 300_000
MAX_PROBLEMS = 100

# Controls, line breaks that editors do not count, lone surrogates, non-characters, marks that reorder text.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


_SYNTAX_REMEDY = "Check indentation, quotes and brackets here"
_SYNTAX_REMEDIES = {
    "while scanning a block scalar": "Put text that begins with `>` or `|` in quotes",
    "mapping values are not allowed": "Put text that holds `: ` in quotes, or check the indentation",
    "cannot start any token": "Put text that begins with such a character in quotes",
    "while scanning a quoted scalar": "Close the quotes",
    "while parsing a flow": "Close the bracket, or put a comma between its items",
}


class Reading(NamedTuple):
    """The result of reading; `data` is None if the problems leave nothing to check."""

    data: Any
    source_map: SourceMap
    problems: list[Problem]


class _Stop(Exception):
    """A problem after which reading cannot continue."""


def read_yaml(source: str | bytes, file: str) -> Reading:
    """One YAML document as plain values. Problems are collected; syntax errors and broken limits end the reading."""
    reader = _Reader(file)
    try:
        text = reader.decode(source)
        data = reader.read(text)
    except _Stop:
        data = None
    return Reading(data, reader.source_map, reader.problems)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.source_map = SourceMap()
        self.problems: list[Problem] = []
        self.node_count = 0

    def add(self, mark: Mark, code: str, message: str, remedy: str, path: Path = ()) -> None:
        self.problems.append(Problem(self.file, *mark, code, message, remedy, json_pointer(*path)))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Stop

    def stop(self, mark: Mark, code: str, message: str, remedy: str, path: Path = ()) -> _Stop:
        self.add(mark, code, message, remedy, path)
        return _Stop()

    def decode(self, source: str | bytes) -> str:
        # One character is at least one byte, so that a huge text is refused without encoding it first.
        size = len(source) if isinstance(source, bytes) or len(source) > MAX_FILE_BYTES else _byte_length(source)
        if size > MAX_FILE_BYTES:
            raise self.stop(
                (1, 1),
                "file-too-large",
                f"the file has more than {MAX_FILE_BYTES:,} bytes",
                "Split it, or move data out of the workflow",
            )
        if isinstance(source, str):
            text = source.removeprefix("\ufeff")
        else:
            try:
                text = source.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                before = source[: error.start].decode("utf-8", "replace")
                mark = (before.count("\n") + 1, len(before) - before.rfind("\n"))
                raise self.stop(mark, "not-utf-8", "this is not UTF-8 text", "Save the file as UTF-8") from None
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.source_map.text = text
        for match in _FORBIDDEN.finditer(text):
            self.add(
                self.source_map.mark_of(match.start()),
                "forbidden-character",
                f"the character U+{ord(match.group()):04X} is not allowed",
                "Remove it; it is a control character or changes how the text is shown",
            )
        if self.problems:
            raise _Stop
        return text

    def read(self, text: str) -> Any:
        try:
            events = CParser(text)
            events.get_event()  # the stream's start
            document = events.get_event()
            if isinstance(document, StreamEndEvent):
                raise self.stop(
                    (1, 1), "empty-file", "the file contains no workflow", "Write at least `workflow_id` and `nodes`"
                )
            self._check_directives(document)
            data = self._value(events, events.get_event(), (), None)
            events.get_event()  # the document's end
            following = events.get_event()
            if not isinstance(following, StreamEndEvent):
                mark = _mark(following.start_mark)
                self.add(
                    mark,
                    "second-document",
                    "a file contains one workflow, but a second begins here",
                    "Move it to its own file",
                )
            return data
        except MarkedYAMLError as error:
            raise self._syntax_error(error, text) from None
        except YAMLError as error:
            raise self.stop(
                (1, 1), "yaml-syntax", f"this is not YAML: {_first_line(error)}", "Check the file"
            ) from None

    def _check_directives(self, document: DocumentStartEvent) -> None:
        if document.version is not None and tuple(document.version) != (1, 2):
            self.add(
                _mark(document.start_mark), "yaml-version", "workflows are YAML 1.2", "Leave the %YAML directive out"
            )

    def _syntax_error(self, error: MarkedYAMLError, text: str) -> _Stop:
        lines = text.rstrip("\n").split("\n")
        mark = _mark(error.problem_mark) if error.problem_mark is not None else (1, 1)
        if mark[0] > len(lines):
            # Something is still open at the end of the file: the place where it was opened helps most.
            mark = _mark(error.context_mark) if error.context_mark is not None else mark
        if mark[0] > len(lines):
            mark = (len(lines), len(lines[-1]) + 1)
        line = lines[mark[0] - 1]
        if line[: mark[1]].strip(" ").startswith("\t"):
            return self.stop(mark, "yaml-syntax", "a tab indents this line", "Indent with spaces")
        what = " ".join(part for part in (error.context, error.problem) if part)
        remedy = next((remedy for words, remedy in _SYNTAX_REMEDIES.items() if words in what), _SYNTAX_REMEDY)
        return self.stop(mark, "yaml-syntax", f"this is not YAML: {what}", remedy)

    def _value(self, events: Any, event: Any, path: Path, key_mark: Mark | None) -> Any:
        mark = _mark(event.start_mark)
        self.node_count += 1
        if self.node_count > MAX_YAML_NODES:
            raise self.stop(
                mark, "too-many-values", f"the file has more than {MAX_YAML_NODES:,} values", "Split the workflow", path
            )
        if isinstance(event, AliasEvent):
            self.add(mark, "alias", f"aliases such as `*{event.anchor}` are not allowed", "Write the value out", path)
            self.source_map.add(path, Place(key_mark or mark, mark))
            return None
        if event.anchor is not None:
            self.add(mark, "anchor", f"anchors such as `&{event.anchor}` are not allowed", "Remove it", path)
        if event.tag is not None:
            self.add(mark, "tag", "tags are not allowed", "Remove the tag; quote the value if it is text", path)
        if isinstance(event, ScalarEvent):
            span = (event.start_mark.index, event.end_mark.index)
            self.source_map.add(path, Place(key_mark or mark, mark, span, event.style or ""))
            return self._scalar(event, mark, path)
        self.source_map.add(path, Place(key_mark or mark, mark))
        if len(path) >= MAX_DEPTH:
            raise self.stop(mark, "too-deep", f"nested deeper than {MAX_DEPTH} levels", "Make the value flatter", path)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(events, path)
        assert isinstance(event, MappingStartEvent)
        return self._mapping(events, path)

    def _sequence(self, events: Any, path: Path) -> list[Any]:
        items: list[Any] = []
        while True:
            event = events.get_event()
            if isinstance(event, SequenceEndEvent):
                return items
            items.append(self._value(events, event, (*path, len(items)), None))

    def _mapping(self, events: Any, path: Path) -> dict[str, Any]:
        members: dict[str, Any] = {}
        key_marks: dict[str, Mark] = {}
        while True:
            event = events.get_event()
            if isinstance(event, MappingEndEvent):
                return members
            mark = _mark(event.start_mark)
            key = self._key(events, event, mark, path)
            value_event = events.get_event()
            if key is None:
                self._value(events, value_event, (*path, f"?{self.node_count}"), mark)
            elif key in members:
                line, column = key_marks[key]
                self.add(
                    mark,
                    "duplicate-key",
                    f"the key `{shorten(key)}` is already used at {line}:{column}",
                    "Keep one of the two",
                    (*path, key),
                )
                self._value(events, value_event, (*path, f"?{self.node_count}"), mark)
            else:
                key_marks[key] = mark
                members[key] = self._value(events, value_event, (*path, key), mark)

    def _key(self, events: Any, event: Any, mark: Mark, path: Path) -> str | None:
        """The key as text, or None if it is refused. `branches: {true: a, false: b}` is understood, so that the rules
        can say what to write instead."""
        if not isinstance(event, ScalarEvent):
            start = event.start_mark.index
            self._value(events, event, (*path, f"?{self.node_count}"), mark)
            if isinstance(event, MappingStartEvent) and self.source_map.text[start - 1 : start + 1] == "{{":
                self.add(
                    (mark[0], mark[1] - 1),
                    "unquoted-template",
                    "a template is not in quotes",
                    'Write "{{ … }}"',
                    path,
                )
            elif not isinstance(event, AliasEvent):
                self.add(mark, "key-not-text", "a list or object cannot be a key", "Use plain text as the key", path)
            return None
        self.node_count += 1
        if event.anchor is not None:
            self.add(mark, "anchor", f"anchors such as `&{event.anchor}` are not allowed", "Remove it", path)
        if event.tag is not None:
            self.add(mark, "tag", "tags are not allowed", "Remove the tag", path)
        key: str = event.value
        if not event.style:
            if key == "<<":
                self.add(mark, "merge-key", "the merge key `<<` is not allowed", "Write the fields out", path)
                return None
            if _resolve(key) is not _TEXT and not (path[-1:] == ("branches",) and key.lower() in ("true", "false")):
                self.add(mark, "key-not-text", f"the key `{shorten(key)}` is not text", "Put it in quotes", path)
                return None
        self._refuse_characters(key, mark, path)
        return key

    def _scalar(self, event: ScalarEvent, mark: Mark, path: Path) -> Any:
        text: str = event.value
        if event.style:
            self._refuse_characters(text, mark, path)
            return text
        value = _resolve(text)
        if value is _TEXT:
            return text
        if value is _REFUSED:
            self.add(
                mark,
                "number-not-json",
                f"`{shorten(text)}` is not a finite number of at most 64 bits",
                "Put it in quotes if it is text",
                path,
            )
            return None
        return value

    def _refuse_characters(self, text: str, mark: Mark, path: Path) -> None:
        """Escapes such as "\\0" are resolved only now."""
        match = _FORBIDDEN.search(text)
        if match:
            self.add(
                mark,
                "forbidden-character",
                f"the character U+{ord(match.group()):04X} is not allowed",
                "Remove the escape",
                path,
            )


_TEXT = object()
_REFUSED = object()


def _resolve(text: str) -> Any:
    """The value of a plain scalar by YAML 1.2's core schema; `_TEXT` for text, `_REFUSED` for what JSON cannot hold."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "-+.0123456789":
        return _TEXT
    if _INTEGER.fullmatch(text):
        if len(text) > 40:
            return _REFUSED
        integer = int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        return integer if MIN_INTEGER <= integer <= MAX_INTEGER else _REFUSED
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else _REFUSED
    return _REFUSED if _NOT_FINITE.fullmatch(text) else _TEXT


def _mark(mark: Any) -> Mark:
    return mark.line + 1, mark.column + 1


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]

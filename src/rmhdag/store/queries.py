"""Named SQL from the `.sql` files beside the modules that use it.

A query begins with `-- name: claim_tasks`; comments before the next name belong to it. Parameters are `%(name)s`.
What several queries of a file share begins with `-- part: room`, and stands where they say `-- include: room`.
Tables are named without their schema: every connection carries it in its search path.

Rows that come as JSON arrays are read by position, but written by name: `-- row: NodeChange` names the row's class in
`batch_rows`, and `r->>{status}` its field. Every field must be read by a query of the file that names the row; if none
needs it, one says so: `-- row: RevisionKey without revision`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from rmhdag.store.batch_rows import FIELDS

_BEGINNING = re.compile(r"^-- (name|part): (\w+)\s*$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)
_ROW = re.compile(r"^-- row: (\w+)(?: without (\w+(?:, \w+)*))?$", re.MULTILINE)
_FIELD = re.compile(r"(->>?)\{(\w+)\}")
_NUMBERED = re.compile(r"\br->>?\d+")
# Lines that say why, and indentation. The driver prepares longer texts than 4,096 bytes anew at every call.
_FOR_READERS = re.compile(r"^[ \t]*--.*\n|^[ \t]+", re.MULTILINE)


class QueryError(Exception):
    """A `.sql` file does not fit to the rows of `batch_rows`."""


def load_queries(module_file: str) -> dict[str, bytes]:
    """The queries of `x.sql` beside `x.py`, as bytes: the driver then treats them as constants. Raises QueryError."""
    path = Path(module_file).with_suffix(".sql")
    pieces = _BEGINNING.split(path.read_text(encoding="utf-8"))
    texts: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        texts[kind][name] = body.strip()
    parts = texts["part"]
    queries: dict[str, bytes] = {}
    mentioned: dict[str, set[str]] = defaultdict(set)
    for name, body in texts["name"].items():
        whole = _INCLUDE.sub(lambda include: parts[include[1]], body)
        placed = _with_positions(whole, f"{path.name}, query {name}", mentioned)
        queries[name] = _FOR_READERS.sub("", placed).encode()
    for row, fields in mentioned.items():
        unread = [field for field in FIELDS[row] if field not in fields]
        if unread:
            raise QueryError(
                f"{path.name}: no query reads {', '.join(unread)} of {row}; "
                f"remove it from batch_rows.py, or write `-- row: {row} without {', '.join(unread)}`"
            )
    return queries


def _with_positions(query: str, place: str, mentioned: dict[str, set[str]]) -> str:
    """The query with the positions of its row's fields; `mentioned` gets the fields, by row."""
    rows = _ROW.findall(query)
    names = [name for _, name in _FIELD.findall(query)]
    if _NUMBERED.search(query):
        raise QueryError(f"{place}: a field is read by its number; name the row, and write r->>{{field}}")
    if not rows and not names:
        return query
    if len(rows) != 1:
        raise QueryError(f"{place}: fields are read by name; write one line `-- row: CLASS`, not {len(rows)}")
    ((row, without),) = rows
    if row not in FIELDS:
        raise QueryError(f"{place}: there is no row {row} in batch_rows.py")
    left_out = without.split(", ") if without else []
    for name in (*names, *left_out):
        if name not in FIELDS[row]:
            raise QueryError(f"{place}: {row} has no field {name}; it has {', '.join(FIELDS[row])}")
    mentioned[row].update(names, left_out)
    return _FIELD.sub(lambda field: f"{field[1]}{FIELDS[row].index(field[2])}", query)

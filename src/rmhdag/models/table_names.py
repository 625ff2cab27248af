"""Names of tables and columns in the data database: from any text, the same name each time.

Wider than PostgreSQL's own list of reserved words: services that show tables do not quote every name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

TABLE_NAME = re.compile(r"[a-z_][a-z0-9_]*")
MOST_TABLE_CHARACTERS = 63
HASH_CHARACTERS = 8

# PostgreSQL's reserved words: as the name of a table each would need quotes for ever.
RESERVED_WORDS = frozenset(
    "all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation "
    "column concurrently constraint create cross current_catalog current_date current_role current_schema current_time "
    "current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze "
    "from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like "
    "limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary "
    "references returning right select session_user similar some symmetric system_user table tablesample then to "
    "trailing true union unique user using variadic verbose when where window with".split()
)
# Names of columns that get a prefix, because some service would take them for words of its language.
COLUMN_WORDS = RESERVED_WORDS | frozenset(
    "abort access action add alter begin between bigint bit boolean by char character comment commit cursor date day "
    "dec decimal declare delete drop double execute exists explain extract float function go grouping hour identity "
    "index insert int integer interval key level minute month name nchar none numeric of position precision range real "
    "result revoke role rollback row rows rule schema second set smallint sql start time timestamp transaction trigger "
    "trim truncate type update value values varchar view whenever work write year zone".split()
)
# The columns that every table has. A column of the data with such a name is kept under another.
OWN_COLUMNS = frozenset({"id", "geom", "geometry", "etl_batch_id"})


def table_slug(text: str) -> str:
    """A name of a table; it begins with `t_` instead of a digit."""
    slug = re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "", joined(text)))
    return cut_name(f"t_{slug}" if slug[:1].isdigit() else slug or "t", text)


def table_name_fault(name: str) -> str | None:
    """What is wrong with a name that a person chose for a table; case, spaces and hyphens do not matter."""
    plain = joined(name)
    if plain in RESERVED_WORDS:
        return f"{name!r} is a reserved word of the database: use {plain}_data or {plain}_layer"
    if not TABLE_NAME.fullmatch(plain) or len(plain) > MOST_TABLE_CHARACTERS:
        return (
            f"{name[:80]!r} is not a name of a table: use a letter or `_`, then letters, digits and `_`, at most "
            f"{MOST_TABLE_CHARACTERS}; {table_slug(name)} would do"
        )
    return None


def column_names(names: Iterable[str]) -> list[str]:
    """A name for each column, in their order; no two are the same, also not with the columns that every table has."""
    used = set(OWN_COLUMNS)
    plain = [column_slug(name) for name in names]
    # Those that need no change keep their name, wherever they are.
    settled = {slug for slug, name in zip(plain, names, strict=True) if slug == name}
    columns = []
    for slug, name in zip(plain, names, strict=True):
        column, number = slug, 1
        while column in used or (column in settled and slug != name) or (column in settled and number > 1):
            number += 1
            ending = f"_{number}"
            column = slug[: MOST_TABLE_CHARACTERS - len(ending)] + ending
        used.add(column)
        columns.append(column)
    return columns


def column_slug(name: str) -> str:
    slug = re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", name.lower())).strip("_") or "unnamed_column"
    if slug in OWN_COLUMNS:
        return f"source_{slug}"
    if slug[0].isdigit():
        slug = f"col_{slug}"
    elif slug in COLUMN_WORDS:
        slug = f"f_{slug}"
    return slug[:MOST_TABLE_CHARACTERS]


def name_with(base: str, ending: str) -> str:
    """The name with an ending; the base is shortened first, and then ends with a hash so that two stay two."""
    if len(base) + len(ending) <= MOST_TABLE_CHARACTERS:
        return base + ending
    ending = ending[-(MOST_TABLE_CHARACTERS // 2) :]
    room = MOST_TABLE_CHARACTERS - len(ending) - HASH_CHARACTERS - 1
    return f"{base[:room].rstrip('_')}_{digest(base)[:HASH_CHARACTERS]}{ending}"


def joined(text: str) -> str:
    return re.sub(r"[ -]", "_", text.lower())


def cut_name(slug: str, text: str, most: int = MOST_TABLE_CHARACTERS, separator: str = "_") -> str:
    """A name that was cut ends with a hash, so that two long names stay two."""
    if len(slug) <= most:
        return slug
    return f"{slug[: most - HASH_CHARACTERS - 1].rstrip('_-')}{separator}{digest(text)[:HASH_CHARACTERS]}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Rows read straight into the models that are shown: a row is validated once, and never copied field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from psycopg.rows import class_row

from rmhdag.store.connection import Conn

T = TypeVar("T")


def read_all(conn: Conn, model: type[T], query: bytes, parameters: Mapping[str, Any]) -> list[T]:
    """Columns that the model does not have are left out."""
    with conn.cursor(row_factory=class_row(model)) as cursor:
        return cursor.execute(query, parameters).fetchall()


def read_one(conn: Conn, model: type[T], query: bytes, parameters: Mapping[str, Any]) -> T | None:
    with conn.cursor(row_factory=class_row(model)) as cursor:
        return cursor.execute(query, parameters).fetchone()

"""Rows read straight into the models that are shown: a row is validated once, and never copied field by field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from psycopg.rows import class_row
from pydantic import BaseModel

from rmhdag.store.connection import Conn

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def read_all(conn: Conn, model: type[T], query: bytes, parameters: Mapping[str, Any]) -> list[T]:
    """Columns that the model does not have are left out."""
    with conn.cursor(row_factory=class_row(model)) as cursor:
        return cursor.execute(query, parameters).fetchall()


def read_one(conn: Conn, model: type[T], query: bytes, parameters: Mapping[str, Any]) -> T | None:
    with conn.cursor(row_factory=class_row(model)) as cursor:
        return cursor.execute(query, parameters).fetchone()


def shown_as(model: type[M], row: BaseModel, **more: Any) -> M:
    """What a row and another model have in common, as that model. It was validated when the row was read."""
    return model.model_construct(**{**row.__dict__, **more})


def labels(values: Collection[str]) -> str | None:
    """Labels of an enum as PostgreSQL writes an array: a list would come as text, and no partial index would fit."""
    return "{" + ",".join(values) + "}" if values else None

"""A migration as data: its steps, changes that are refused as unsafe, and objects that are not in the models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

# Pages of 8 KB: small enough that a batch holds its row locks for some ten milliseconds.
BATCH_PAGES = 64


@dataclass(frozen=True)
class Change:
    """Statements of one transaction, under a short lock_timeout and tried again."""

    title: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class ConcurrentChange:
    """Statements that run one by one outside a transaction; they wait for others without holding anybody up."""

    title: str
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Backfill:
    """Fill the NULLs of a column in batches, each a transaction of its own."""

    title: str
    schema: str
    table: str
    column: str
    expression: str

    def batch(self, leaf: str) -> str:
        """One range of pages; it is read by address, so that no batch walks over what earlier ones have done."""
        return (
            f"UPDATE {self.schema}.{leaf} SET {self.column} = {self.expression.replace('%', '%%')} "
            f"WHERE {self.column} IS NULL AND ctid >= %s::tid AND ctid < %s::tid"
        )

    @property
    def statements(self) -> tuple[str, ...]:
        return (self.batch(self.table).replace("%s", "'(…,0)'") + f" -- in batches of {BATCH_PAGES} pages",)


Step = Change | ConcurrentChange | Backfill


@dataclass(frozen=True)
class UnsafeChange:
    what: str
    where: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.why}. Remedy: {self.remedy}."


@dataclass
class MigrationSteps:
    """Applied as a whole or not at all: with refusals in it, no step is taken."""

    schema: str
    steps: list[Step] = field(default_factory=list)
    refusals: list[UnsafeChange] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    UP_TO_DATE: ClassVar[str] = "The database is up to date."

    @property
    def is_empty(self) -> bool:
        return not self.steps and not self.refusals

    def render(self) -> str:
        """For people: the SQL of each step under its title."""
        lines = [f"-- left alone: {notice}" for notice in self.notices]
        lines += [f"-- REFUSED {refusal}" for refusal in self.refusals]
        for number, step in enumerate(self.steps, 1):
            lines += ["", f"-- {number}. {step.title}", *(f"{statement};" for statement in step.statements)]
        if self.is_empty:
            lines.append(f"-- {self.UP_TO_DATE}")
        return "\n".join(lines).strip() + "\n"


class MigrationFailed(Exception):
    """Something could not be done. Earlier steps stand; running the migration again goes on from there."""


class MigrationRefused(Exception):
    """Nothing was changed. The text lists every refusal."""

    def __init__(self, refusals: list[UnsafeChange]) -> None:
        self.refusals = refusals
        super().__init__("\n".join(str(refusal) for refusal in refusals))

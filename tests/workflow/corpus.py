"""The corpus of workflow files: where it is, and what the head of each file says about how to check it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rmhdag.workflow import KnownHandlers, shipped_handlers

FOLDER = Path(__file__).parent.parent / "workflows"

_EXPECTATION = re.compile(r"(\d+):(\d+) ([a-z0-9-]+): (.+)")
_REMEDY = re.compile(r"(\d+):(\d+) (.+)")


@dataclass
class Case:
    """`expected` holds line, column, code and message of every problem the file must have.

    `remedies` holds what some of them advise, by line and column.

    `handlers: any` is for files that name handlers or parameters which do not exist here; valid files else name ours.
    `result` names the nodes whose outputs are the result of a job, where the file says so.
    """

    path: Path
    handlers: KnownHandlers | None = None
    any_handlers: bool = False
    queues: frozenset[str] | None = None
    env_names: frozenset[str] = frozenset()
    fallback_queue: str | None = None
    schema: str = "passes"
    result: tuple[str, ...] | None = None
    expected: list[tuple[int, int, str, str]] = field(default_factory=list)
    remedies: dict[tuple[int, int], str] = field(default_factory=dict)


def read_case(path: Path) -> Case:
    case = Case(path)
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("# "):
            break
        name, _, value = line.removeprefix("# ").partition(": ")
        match name:
            case "handlers":
                case.handlers = None if value == "any" else shipped_handlers()
                case.any_handlers = value == "any"
            case "queues":
                case.queues = frozenset(value.split())
            case "env":
                case.env_names = frozenset(value.split())
            case "fallback_queue":
                case.fallback_queue = value
            case "result":
                case.result = tuple(value.split())
            case "schema":
                case.schema = value
            case "expect":
                found = _EXPECTATION.fullmatch(value)
                assert found, f"{path.name}: cannot read {line!r}"
                case.expected.append((int(found[1]), int(found[2]), found[3], found[4]))
            case "remedy":
                found = _REMEDY.fullmatch(value)
                assert found, f"{path.name}: cannot read {line!r}"
                case.remedies[int(found[1]), int(found[2])] = found[3]
    return case


def cases(kind: str) -> Iterator[Case]:
    return map(read_case, sorted((FOLDER / kind).glob("*.yaml")))

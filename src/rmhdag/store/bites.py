"""Rows as JSON texts of bounded size.

A pipeline of the driver can stop for ever when a statement does not fit into the buffers of the connection
(docs/architecture/publishing.md), so nothing that may be large is sent as one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import orjson

BITE_BYTES = 1024 * 1024
Row = TypeVar("Row", bound=Sequence[Any])


def in_bites(rows: Iterable[Row], bite_bytes: int = BITE_BYTES) -> Iterator[tuple[list[Row], str]]:
    """Some rows and their JSON text: at most `bite_bytes` together, or a single larger row."""
    bite: list[Row] = []
    texts: list[bytes] = []
    size = 0
    for row in rows:
        text = orjson.dumps(list(row))
        if bite and size + len(text) > bite_bytes:
            yield bite, _array(texts)
            bite, texts, size = [], [], 0
        bite.append(row)
        texts.append(text)
        size += len(text) + 1
    if bite:
        yield bite, _array(texts)


def _array(texts: list[bytes]) -> str:
    return (b"[" + b",".join(texts) + b"]").decode()

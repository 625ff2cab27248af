"""Secret inputs of jobs: what is stored of them, and who gets them back.

In place of the value stands a reference to a payload of its own kind, from the job's row to the parameters of tasks.
Only a worker opens it, right before the handler runs: engine, events and views never have the value.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.models.references import SECRET_MEDIA_TYPE
from rmhdag.store.vault import vault_of_inputs

if TYPE_CHECKING:
    from rmhdag.store.connection import Conn

PLACE = "secret input"


def seal_inputs(conn: Conn, namespace: str, names: Collection[str], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with references in place of plain secrets. `insert_jobs` says whose the payloads are; one that no
    job needs is removed after a day."""
    # Here, because a worker over HTTP opens secrets and has no driver of a database.
    from rmhdag.store import payloads

    sealed = dict(params)
    for name in names:
        value = params.get(name)
        if isinstance(value, str):
            vault_of_inputs().prepare(conn)
            # Salted: the same value twice is two payloads, and a hash tells nothing about the value.
            content = {"secret": vault_of_inputs().seal(value, namespace, PLACE), "salt": secrets.token_hex(16)}
            text = orjson.dumps(content)
            sealed[name] = payloads.write_json(conn, namespace, None, text, SECRET_MEDIA_TYPE).as_json()
    return sealed


def open_secret(namespace: str, text: bytes) -> str:
    """The value. Raises SecretUnreadable."""
    return vault_of_inputs().unseal(orjson.loads(text)["secret"], namespace, PLACE)

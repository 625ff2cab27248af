"""Objects that are too large for a row: their large members are stored apart, once per job, before the row is written.

The engine marks them (`LargeObject`), so that nobody measures the many that are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.engine import effects as fx
from rmhdag.engine.outputs import LargeObject
from rmhdag.models.json_values import may_hold_reserved_key
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import INLINE_BYTES, INPUT_BYTES, RESULT_BYTES
from rmhdag.models.references import as_reference, is_secret, references_in
from rmhdag.store import payloads
from rmhdag.store.connection import Conn

if TYPE_CHECKING:
    from rmhdag.orchestrator.owned_jobs import OwnedJob

# A reference itself takes 150 bytes; what is not much larger stays where it is.
SMALLEST_BYTES = 4 * 1024


def store_large_objects(conn: Conn, job: OwnedJob, effects: Iterable[fx.Effect]) -> None:
    """Put references in place of what is large in the effects of a job. The payloads are committed at once: should the
    rows not follow, they are the job's all the same, and the next try finds them."""
    apart = _Apart(conn, job.namespace, job.job_id)
    for effect in effects:
        if isinstance(effect, fx.NodeChanged):
            if type(effect.input_params) is LargeObject:
                effect.input_params = apart.shrink(effect.input_params, INLINE_BYTES)
        elif isinstance(effect, fx.TaskQueued):
            if type(effect.params) is LargeObject:
                effect.params = apart.shrink(effect.params, INLINE_BYTES)
        elif isinstance(effect, fx.ChildrenCreated):
            for child in effect.children:
                if type(child.input_params) is LargeObject:
                    child.input_params = apart.shrink(child.input_params, INLINE_BYTES)
        elif isinstance(effect, fx.JobChanged) and type(effect.result) is LargeObject:
            effect.result = apart.shrink(effect.result, RESULT_BYTES)
    job.run.has_large_objects = False


def shrink_inputs(conn: Conn, job: OwnedJob, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a child of the job as the child's row holds them. What is stored apart is the job's: there may
    never be such a child, for the job may end before its row is written."""
    if len(orjson.dumps(params)) <= INLINE_BYTES:
        return params
    return _Apart(conn, job.namespace, job.job_id).shrink(params, INLINE_BYTES, by_members_only=True)


def restore_inputs(conn: Conn, namespace: str, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a job as its expressions see them: what was stored apart is back, within the limit of inputs.

    What is larger, or gone, stays a reference, which only tasks can follow.
    """
    stored = {
        name: reference for name, value in params.items() if (reference := as_reference(value)) and not is_secret(value)
    }
    room = INPUT_BYTES
    for name, reference in stored.items():
        room -= reference.size_bytes
        if room < 0:
            break
        try:
            params = {**params, name: payloads.read_json(conn, namespace, reference.sha256)}
        except PayloadMissingError:
            continue
    return params


def use_references(conn: Conn, namespace: str, job_id: str, value: Any) -> None:
    """The job was handed a value of another job: it needs the payloads that this refers to."""
    payloads.add_uses(conn, namespace, job_id, payloads_of(value))


def payloads_of(value: Any) -> list[str]:
    """The hashes of the payloads that a value refers to."""
    if not may_hold_reserved_key(orjson.dumps(value)):
        return []
    return [reference.sha256 for reference in references_in(value)]


class _Apart:
    """What one call stores. Values are shared between nodes, so each is encoded and written once."""

    def __init__(self, conn: Conn, namespace: str, job_id: str) -> None:
        self._conn = conn
        self._namespace = namespace
        self._job_id = job_id
        self._shrunk: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._texts: dict[int, tuple[Any, bytes]] = {}
        self._references: dict[int, dict[str, Any]] = {}

    def shrink(self, whole: dict[str, Any], most_bytes: int, *, by_members_only: bool = False) -> dict[str, Any]:
        """The largest members go first, until the rest fits; of very many small ones, all go as one."""
        cached = self._shrunk.get(id(whole))
        if cached is not None:
            return cached[1]
        sizes = {name: len(self._text(value)) for name, value in whole.items()}
        total = sum(sizes.values()) + sum(len(name) + 4 for name in whole)
        rest = dict(whole)
        for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if total <= most_bytes or sizes[name] < SMALLEST_BYTES:
                break
            rest[name] = self._store(whole[name])
            total -= sizes[name]
        if total > most_bytes and not by_members_only:
            rest = payloads.write_json(self._conn, self._namespace, self._job_id, orjson.dumps(rest)).as_json()
        self._shrunk[id(whole)] = (whole, rest)
        return rest

    def _text(self, value: Any) -> bytes:
        cached = self._texts.get(id(value))
        if cached is None:
            cached = (value, orjson.dumps(value))
            if len(cached[1]) >= SMALLEST_BYTES:
                self._texts[id(value)] = cached
        return cached[1]

    def _store(self, value: Any) -> dict[str, Any]:
        reference = self._references.get(id(value))
        if reference is None:
            text = self._text(value)
            reference = payloads.write_json(self._conn, self._namespace, self._job_id, text).as_json()
            self._references[id(value)] = reference
        return reference

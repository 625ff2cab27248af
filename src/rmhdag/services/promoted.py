"""Promote and demote datasets, and arrange the gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from rmhdag.models.assets import Classification
from rmhdag.models.refusals import Kind, Refusal, not_found
from rmhdag.store import promoted
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.promoted import PromotedLine

# What the audit trail keeps.
SHOWN = ("collection_id", "item_id", "title", "classification", "gallery_order", "system_role")


def promote(conn: Conn, namespace: str, promoted_id: str, fields: Mapping[str, Any], *, by: str) -> PromotedLine:
    """Put a collection or an item of the catalogue in front; the same id again changes it."""
    row = {**fields, "namespace": namespace, "promoted_id": promoted_id, "by": by}
    try:
        with conn.transaction():
            promoted.lock_promoted(conn, namespace)
            _check_reference(conn, namespace, row)
            before = promoted.find_promoted(conn, namespace, promoted_id)
            if before is not None and before.system_role is not None and row["system_role"] != before.system_role:
                raise _reserved(promoted_id, before.system_role, "demote it first, with `confirm_system`")
            promoted.put_promoted(conn, row)
            line = promoted.find_promoted(conn, namespace, promoted_id)
            assert line is not None
            add_audit(
                conn,
                namespace,
                by,
                "promoted.put",
                f"promoted {promoted_id}",
                before={} if before is None else _shown(before),
                after=_shown(line),
            )
    except psycopg.errors.UniqueViolation:
        raise Refusal(
            Kind.CONFLICT,
            "role_taken",
            f"another promoted dataset has the system role {row['system_role']!r}",
            remedy=f"`GET /api/v1/promoted?system_role={row['system_role']}` shows it; demote it first.",
            pointer="/system_role",
        ) from None
    return line


def demote(conn: Conn, namespace: str, promoted_id: str, *, confirm_system: bool, by: str) -> PromotedLine:
    """Take it away from the front; the catalogue and the files stay."""
    with conn.transaction():
        promoted.lock_promoted(conn, namespace)
        line = promoted.find_promoted(conn, namespace, promoted_id)
        if line is None:
            raise no_promoted(promoted_id)
        if line.system_role is not None and not confirm_system:
            raise _reserved(promoted_id, line.system_role, "repeat it with `confirm_system=true`")
        promoted.delete_promoted(conn, namespace, promoted_id)
        add_audit(conn, namespace, by, "promoted.delete", f"promoted {promoted_id}", before=_shown(line))
    return line


def arrange_gallery(conn: Conn, namespace: str, promoted_ids: Sequence[str], *, by: str) -> list[PromotedLine]:
    """The gallery has exactly these, in this order."""
    with conn.transaction():
        unknown = sorted(set(promoted_ids) - promoted.lock_promoted(conn, namespace))
        if unknown:
            raise Refusal(
                Kind.UNKNOWN_NAME,
                "unknown_promoted",
                f"there is no promoted dataset {unknown[0]!r}",
                remedy="`GET /api/v1/promoted` lists them.",
                pointer="/promoted_ids",
            )
        before = [line.promoted_id for line in promoted.read_gallery(conn, namespace)]
        promoted.arrange_gallery(conn, namespace, promoted_ids)
        after = {"gallery": list(promoted_ids)}
        add_audit(conn, namespace, by, "promoted.arrange", "gallery", before={"gallery": before}, after=after)
        return promoted.read_gallery(conn, namespace)


def no_promoted(promoted_id: str) -> Refusal:
    return not_found(f"promoted dataset {promoted_id!r}", remedy="`GET /api/v1/promoted` lists them.")


def _check_reference(conn: Conn, namespace: str, row: Mapping[str, Any]) -> None:
    place = (row["collection_id"], row["item_id"])
    withheld = promoted.is_reference_withheld(conn, namespace, *place)
    if withheld is None:
        what = f"item {place[1]!r} in collection {place[0]!r}" if place[1] else f"collection {place[0]!r}"
        raise Refusal(
            Kind.UNKNOWN_NAME,
            "unknown_reference",
            f"the catalogue has no {what}",
            remedy="Publish it first: only what the catalogue shows can be promoted.",
            pointer="/item_id" if place[1] else "/collection_id",
        )
    if withheld and row["classification"] == Classification.PUBLIC:
        raise Refusal(
            Kind.CONFLICT,
            "not_public",
            "its revision is not cleared for the public",
            remedy="Promote it as `restricted`, or have the revision approved as public.",
            pointer="/classification",
        )


def _reserved(promoted_id: str, role: str, remedy: str) -> Refusal:
    return Refusal(
        Kind.CONFLICT,
        "system_reserved",
        f"promoted dataset {promoted_id!r} has the system role {role!r}, which the platform relies on",
        remedy=f"If you are sure, {remedy}.",
    )


def _shown(line: PromotedLine) -> dict[str, Any]:
    return {name: value for name, value in line._asdict().items() if name in SHOWN}

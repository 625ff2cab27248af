"""The registry of platforms: which there are in a namespace, how they are changed, and how settings seed it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

from rmhdag.assets.identity import Platform, Platforms, check_platform, identity_change
from rmhdag.models.assets import PlatformReview
from rmhdag.models.namespaces import DEFAULT
from rmhdag.models.refusals import Kind, Refusal, not_found
from rmhdag.observability.logs import get_logger
from rmhdag.store import platforms as store
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.platforms import PlatformLine

SEEDED_BY = "settings"
# A change made by another process is seen after this time at the latest.
CACHE_SECONDS = 2.0
MOST_NAMESPACES = 1_000

log = get_logger(__name__)


class PlatformInUseError(Refusal):
    """Existing assets would no longer be found by their references."""

    def __init__(self, platform_id: str, reason: str) -> None:
        super().__init__(
            Kind.CONFLICT,
            "platform_in_use",
            f"platform {platform_id!r} has assets, and they would not be found any more: {reason}",
            remedy="Keep its references, or register a platform under another name. Optional references can be added.",
            pointer="/identity_refs",
        )


class PlatformCache:
    """The platforms of each namespace, for a moment. `seeds` count until their rows are written."""

    def __init__(self, seeds: Platforms | None = None) -> None:
        self.seeds = seeds or Platforms()
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[float, Platforms]] = {}

    def read(self, conn: Conn, namespace: str) -> Platforms:
        now = time.monotonic()
        with self._lock:
            entry = self._entries.get(namespace)
        if entry is not None and now - entry[0] < CACHE_SECONDS:
            return entry[1]
        platforms = read_platforms(conn, namespace, self.seeds)
        with self._lock:
            if len(self._entries) >= MOST_NAMESPACES:
                self._entries.clear()
            self._entries[namespace] = (now, platforms)
        return platforms

    def forget(self) -> None:
        """After a change by this process."""
        with self._lock:
            self._entries.clear()


def read_platforms(conn: Conn, namespace: str, seeds: Platforms | None = None) -> Platforms:
    """What orders are checked against."""
    return Platforms([*(seeds or ()), *map(platform_of, store.list_platforms(conn, namespace))])


def platform_of(line: PlatformLine) -> Platform:
    return Platform(
        line.platform_id,
        tuple(line.identity_refs),
        tuple(line.optional_refs),
        line.version_ref,
        PlatformReview(line.review),
        line.active,
    )


def set_platform(
    conn: Conn, namespace: str, platform: Platform, *, issued_by: str, seeds: Platforms | None = None
) -> None:
    """Register a platform, or change it; a repetition changes nothing. Raises InvalidPlatform, PlatformInUseError."""
    check_platform(platform)
    with conn.transaction():
        _change(conn, namespace, platform, issued_by, "platform.set", seeds)


def deactivate_platform(
    conn: Conn, namespace: str, platform_id: str, *, issued_by: str, seeds: Platforms | None = None
) -> None:
    """Take no more orders of it; its assets stay. In another namespace than `default` only that one is concerned."""
    with conn.transaction():
        store.lock_platforms(conn)
        platform = read_platforms(conn, namespace, seeds).get(platform_id)
        if platform is None:
            raise unknown_platform(platform_id)
        _change(conn, namespace, replace(platform, active=False), issued_by, "platform.deactivate", seeds)


def seed_platforms(conn: Conn, seeds: Platforms) -> list[str]:
    """Write the platforms of the settings for all namespaces, and return the names of those that were written. A row
    that a person has changed stays as it is.
    """
    names = []
    with conn.transaction():
        store.lock_platforms(conn)
        rows = {line.platform_id: line for line in store.list_platforms(conn, DEFAULT)}
        for seed in seeds:
            row = rows.get(seed.platform_id)
            if row is not None:
                before = platform_of(row)
                if row.updated_by is not None or before == seed:
                    continue
                reason = identity_change(before, seed)
                if reason is not None and store.has_assets(conn, DEFAULT, seed.platform_id):
                    log.warning("platform_setting_ignored", platform_id=seed.platform_id, reason=reason)
                    continue
            _put(conn, DEFAULT, seed, created_by=SEEDED_BY, updated_by=None)
            names.append(seed.platform_id)
    return names


def unknown_platform(platform_id: str) -> Refusal:
    return not_found(f"platform {platform_id!r}", remedy="`GET /api/v1/platforms` lists them.")


def _change(
    conn: Conn, namespace: str, platform: Platform, issued_by: str, action: str, seeds: Platforms | None
) -> None:
    store.lock_platforms(conn)
    before = read_platforms(conn, namespace, seeds).get(platform.platform_id)
    is_own = any(
        (line.namespace, line.platform_id) == (namespace, platform.platform_id)
        for line in store.list_platforms(conn, namespace)
    )
    if before == platform and is_own:
        return
    reason = None if before is None else identity_change(before, platform)
    if reason is not None and store.has_assets(conn, namespace, platform.platform_id):
        raise PlatformInUseError(platform.platform_id, reason)
    _put(conn, namespace, platform, created_by=issued_by, updated_by=issued_by)
    add_audit(
        conn,
        namespace,
        issued_by,
        action,
        f"platform {platform.platform_id}",
        before=None if before is None else facts_of(before),
        after=facts_of(platform),
    )


def _put(conn: Conn, namespace: str, platform: Platform, *, created_by: str, updated_by: str | None) -> None:
    store.put_platform(
        conn, namespace, platform.platform_id, **facts_of(platform), created_by=created_by, updated_by=updated_by
    )


def facts_of(platform: Platform) -> dict[str, Any]:
    """As they are stored and shown."""
    return {
        "identity_refs": list(platform.required),
        "optional_refs": list(platform.optional),
        "version_ref": platform.version_ref,
        "review": platform.review.value,
        "active": platform.active,
    }

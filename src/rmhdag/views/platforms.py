"""Platforms as they are shown, with the namespace whose definition applies."""

from __future__ import annotations

from rmhdag.assets.identity import Platforms
from rmhdag.models.api.platforms import PlatformView
from rmhdag.models.namespaces import DEFAULT
from rmhdag.services.platforms import SEEDED_BY, facts_of, unknown_platform
from rmhdag.store.connection import Conn
from rmhdag.store.platforms import list_platforms


def show_platforms(conn: Conn, namespace: str, seeds: Platforms) -> list[PlatformView]:
    """By id. A seed whose row is not written yet counts as if it were."""
    rows = {line.platform_id: line for line in list_platforms(conn, namespace)}
    views = {
        seed.platform_id: PlatformView(
            platform_id=seed.platform_id,
            **facts_of(seed),
            namespace=DEFAULT,
            created_by=SEEDED_BY,
            updated_by=None,
            updated_at=None,
        )
        for seed in seeds
    }
    views |= {name: PlatformView.model_validate(row._asdict()) for name, row in rows.items()}
    return [views[name] for name in sorted(views)]


def show_platform(conn: Conn, namespace: str, seeds: Platforms, platform_id: str) -> PlatformView:
    for view in show_platforms(conn, namespace, seeds):
        if view.platform_id == platform_id:
            return view
    raise unknown_platform(platform_id)

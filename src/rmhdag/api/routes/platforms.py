"""The registry of platforms: list, show, register or change, deactivate."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Caller, NamespaceOrPlatform, Reader, check_scope
from rmhdag.assets.identity import Platform
from rmhdag.models.api.platforms import PlatformBody, PlatformList, PlatformView
from rmhdag.models.namespaces import DEFAULT
from rmhdag.models.scopes import Scope
from rmhdag.services.platforms import deactivate_platform, set_platform
from rmhdag.views.platforms import show_platform, show_platforms

router = APIRouter(prefix="/api/v1/platforms", tags=["assets"])

PlatformName = Annotated[
    str, Path(pattern=r"^[a-z][a-z0-9_-]{0,63}$", description="The id of a platform", examples=["ddh"])
]


@router.get("")
def list_platforms(caller: Reader, api: ApiContext) -> PlatformList:
    """The platforms that may order in the caller's namespace, by id."""
    with api.connection() as conn:
        return PlatformList(platforms=show_platforms(conn, caller.namespace, api.settings.platforms))


@router.get("/{platform_id}")
def get_platform(platform_id: PlatformName, caller: Reader, api: ApiContext) -> PlatformView:
    """A platform: its references, its version label, its review."""
    with api.connection() as conn:
        return show_platform(conn, caller.namespace, api.settings.platforms, platform_id)


@router.put("/{platform_id}")
def put_platform(
    platform_id: PlatformName, body: PlatformBody, caller: NamespaceOrPlatform, api: ApiContext
) -> PlatformView:
    """Register a platform, or replace its definition: for the caller's namespace with `admin`, for all namespaces
    without a definition of their own with `platform`. 409 if existing assets would not be found any more.
    """
    namespace = changed_namespace(caller)
    platform = Platform(
        platform_id,
        tuple(body.identity_refs),
        tuple(body.optional_refs),
        body.version_ref,
        body.review,
        body.active,
    )
    with api.connection() as conn:
        set_platform(conn, namespace, platform, issued_by=caller.name, seeds=api.settings.platforms)
        api.platforms.forget()
        return show_platform(conn, namespace, api.settings.platforms, platform_id)


@router.post("/{platform_id}/deactivate")
def deactivate(platform_id: PlatformName, caller: NamespaceOrPlatform, api: ApiContext) -> PlatformView:
    """Take no more orders of a platform. Its assets stay, and can be decided on."""
    namespace = changed_namespace(caller)
    with api.connection() as conn:
        deactivate_platform(conn, namespace, platform_id, issued_by=caller.name, seeds=api.settings.platforms)
        api.platforms.forget()
        return show_platform(conn, namespace, api.settings.platforms, platform_id)


def changed_namespace(caller: Caller) -> str:
    """The definition of `default` counts for others too: its administrator alone may not change it."""
    if caller.namespace != DEFAULT and caller.may(Scope.ADMIN):
        return caller.namespace
    check_scope(caller, Scope.PLATFORM)
    return DEFAULT

"""External services and promoted datasets, for both sides of the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmhdag.client import calls
from rmhdag.client.bodies import checked
from rmhdag.client.sides import Iteration, Operation
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.promoted import GalleryOrder, PromotedView, PromotionRequest
from rmhdag.models.api.services import (
    ServiceCallView,
    ServiceDeleted,
    ServicePutAnswer,
    ServiceRequest,
    ServiceView,
)


class OutsideOperations:
    @Operation
    def services(self) -> Steps[list[ServiceView]]:
        """External services of the namespace, by name."""
        return (yield from ask(calls.list_services())).services

    @Operation
    def service(self, name: str) -> Steps[ServiceView]:
        """One external service, without its secret."""
        return (yield from ask(calls.get_service(name)))

    @Operation
    def put_service(
        self,
        name: str,
        kind: str,
        *,
        url: str | None = None,
        settings: Mapping[str, Any] | None = None,
        secret: str | None = None,
        enabled: bool = True,
    ) -> Steps[ServicePutAnswer]:
        """Set an external service up, or change it. A secret that is generated is shown this once."""
        fields = {"kind": kind, "url": url, "settings": dict(settings or {}), "secret": secret, "enabled": enabled}
        return (yield from ask(calls.put_service(name, checked(ServiceRequest, fields))))

    @Operation
    def delete_service(self, name: str) -> Steps[ServiceDeleted]:
        """Remove an external service and its calls."""
        return (yield from ask(calls.delete_service(name)))

    @Iteration
    def service_calls(self, name: str, *, status: str | None = None) -> Items[ServiceCallView]:
        """Calls to a service, newest first."""
        yield from pages(lambda cursor: calls.list_service_calls(name, cursor, status=status), lambda page: page.calls)

    @Operation
    def retry_service_call(self, name: str, call_id: str) -> Steps[ServiceCallView]:
        """Give a call that was given up another chance."""
        return (yield from ask(calls.retry_service_call(name, call_id)))

    @Iteration
    def promoted(self, *, outside: bool = False, system_role: str | None = None) -> Items[PromotedView]:
        """Promoted datasets, by id; `outside`: only what the public may see."""
        filters = {"outside": outside, "system_role": system_role}
        yield from pages(lambda cursor: calls.list_promoted(cursor, **filters), lambda page: page.promoted)

    @Operation
    def promoted_dataset(self, promoted_id: str) -> Steps[PromotedView]:
        """One promoted dataset."""
        return (yield from ask(calls.get_promoted(promoted_id)))

    @Operation
    def promote(
        self, promoted_id: str, collection_id: str, item_id: str | None = None, /, **more: Any
    ) -> Steps[PromotedView]:
        """Put a collection or an item in front; the same id again changes it. `more` are the fields of
        `PromotionRequest`: title, description, tags, gallery_order, system_role, classification and others.
        """
        fields = {"collection_id": collection_id, "item_id": item_id, **more}
        return (yield from ask(calls.promote(promoted_id, checked(PromotionRequest, fields))))

    @Operation
    def demote(self, promoted_id: str, *, confirm_system: bool = False) -> Steps[PromotedView]:
        """Take it away from the front; the catalogue stays as it is."""
        return (yield from ask(calls.demote(promoted_id, confirm_system=confirm_system)))

    @Operation
    def gallery(self, *, outside: bool = False) -> Steps[list[PromotedView]]:
        """The gallery, in its order."""
        return (yield from ask(calls.get_gallery(outside=outside))).promoted

    @Operation
    def order_gallery(self, promoted_ids: Sequence[str]) -> Steps[list[PromotedView]]:
        """Let the gallery have exactly these, in this order."""
        body = checked(GalleryOrder, {"promoted_ids": list(promoted_ids)})
        return (yield from ask(calls.order_gallery(body))).promoted

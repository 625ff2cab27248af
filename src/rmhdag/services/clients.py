"""What a client of the gateway may order, decided in the transaction of the order."""

from __future__ import annotations

from rmhdag.models.clients import ClientQuotas
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store import clients
from rmhdag.store.connection import Conn


class ClientQuotaExceeded(Refusal):
    """The client has as many orders as it may have."""

    def __init__(self, name: str, limit: int, sentence: str, remedy: str) -> None:
        super().__init__(Kind.FORBIDDEN, "client_quota_exceeded", sentence, remedy=remedy)
        self.quota = name
        self.limit = limit


class ClientDisabled(Refusal):
    """Somebody has switched the client off."""

    def __init__(self) -> None:
        super().__init__(
            Kind.FORBIDDEN, "client_disabled", "this client is disabled", remedy="Ask the operator of the platform."
        )


def admit_order(conn: Conn, namespace: str, client_id: str, defaults: ClientQuotas) -> None:
    """Raises a Refusal. Call it inside the transaction that writes the order: others of the same client wait for it."""
    clients.hold_orders(conn, namespace, client_id)
    client = clients.find_client(conn, namespace, client_id)
    if client is not None and not client.active:
        raise ClientDisabled
    limits = defaults if client is None else defaults.with_overrides(client.quotas)
    counts = clients.count_orders(
        conn, namespace, client_id, open_limit=limits.open_orders, day_limit=limits.orders_per_day
    )
    if counts.open >= limits.open_orders:
        raise ClientQuotaExceeded(
            "open_orders",
            limits.open_orders,
            f"{counts.open:,} orders have not ended, and the most is {limits.open_orders:,}",
            "Wait until some have ended, or ask the operator of the platform for a higher quota.",
        )
    if counts.today >= limits.orders_per_day:
        raise ClientQuotaExceeded(
            "orders_per_day",
            limits.orders_per_day,
            f"{counts.today:,} orders were placed in the last 24 hours, and the most is {limits.orders_per_day:,}",
            "Order the rest tomorrow, or ask the operator of the platform for a higher quota.",
        )

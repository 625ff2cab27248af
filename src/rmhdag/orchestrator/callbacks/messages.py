"""What a callback says: its stored body, or for a subscriber of OGC API – Processes the results or the status of a job.

The status is that of the moment the callback is about, so it is the same in every try. Results are read when they are
sent: they do not change, and may be too large for a row of the outbox.
"""

from __future__ import annotations

from typing import Any

import orjson

from rmhdag.models.ogc_jobs import results_of, status_info
from rmhdag.models.partner_orders import state_of
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.store.callbacks import ClaimedCallback
from rmhdag.store.connection import Conn
from rmhdag.store.partner_orders import find_partner_order


class NotToBeSent(Exception):
    """What it would say must not be said any more; the message is for the owner of the callback."""


def message_of(conn: Conn, claimed: ClaimedCallback, settings: CallbackSettings) -> bytes:
    """Raises NotToBeSent."""
    if claimed.form == "ogc":
        return orjson.dumps(_document(conn, claimed, settings.partner_url))
    url = settings.public_url if claimed.request_id == "" else settings.partner_url
    return orjson.dumps({**claimed.body, "result_url": url + str(claimed.body["result_url"])})


def _document(conn: Conn, claimed: ClaimedCallback, url: str) -> dict[str, Any]:
    order = find_partner_order(conn, claimed.namespace, claimed.request_id)
    if order is None:
        raise NotToBeSent("the order is older than the platform keeps it")
    state, at = str(claimed.body["status"]), str(claimed.body["occurred_at"])
    if state != "completed":
        return status_info(order, url, state, at, None)
    if state_of(order) != "completed":
        raise NotToBeSent("the content was revoked before its results were delivered")
    return results_of(order, names_outputs=bool(order["names_outputs"]))

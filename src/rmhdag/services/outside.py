"""External services: who is notified of approved content, with which secrets; calls that get another chance."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import ValidationError

from rmhdag.models.assets import Classification
from rmhdag.models.refusals import Kind, Place, Refusal, not_found
from rmhdag.models.service_calls import CallStatus, ServiceKind
from rmhdag.models.service_settings import SETTINGS_OF, PipelineSettings
from rmhdag.services.callbacks.destinations import CallbackRefused, Rules, check_callback_url
from rmhdag.services.callbacks.signing import Vault, check_secret, new_secret
from rmhdag.store import external_services, service_calls
from rmhdag.store.audit import add_audit
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.external_services import StoredService
from rmhdag.store.identity import new_id
from rmhdag.store.service_calls import announce_withdrawal as announce_withdrawal

AZURE = "https://management.azure.com"


class ServiceWish(NamedTuple):
    """A service as somebody wants it. Without a secret the one that is there stays, or a message gets a new one."""

    name: str
    kind: ServiceKind
    url: str | None
    settings: dict[str, Any]
    secret: str | None
    enabled: bool


class ServicePut(NamedTuple):
    """`new_secret` was made here, and is shown this once."""

    service: StoredService
    is_new: bool
    new_secret: str | None


def announce_approval(
    conn: Conn, key: RevisionKey, clearance: Classification | str, *, requested_by: str = "approval"
) -> list[str]:
    """Within the transaction of an approval; what to say of it. Without a service it succeeds all the same."""
    return service_calls.announce_approval(conn, key, clearance, requested_by=requested_by)


def secret_place(namespace: str, service_id: str) -> tuple[str, str]:
    """What a sealed secret is bound to."""
    return namespace, f"service:{service_id}"


def put_service(conn: Conn, namespace: str, wish: ServiceWish, rules: Rules, vault: Vault, *, by: str) -> ServicePut:
    """Create a service, or change the one of this name. Its kind stays as it is."""
    url = _checked_url(wish.url or (AZURE if wish.kind is ServiceKind.ADF else None), rules, "/url")
    settings = _checked_settings(wish, rules)
    given_secret = _checked_secret(wish)
    with conn.transaction():
        before = external_services.find_service(conn, namespace, wish.name, lock=True)
        if before is not None and before.kind != wish.kind:
            raise Refusal(
                Kind.CONFLICT,
                "service_kind_differs",
                f"service {wish.name!r} is of kind {before.kind}",
                remedy="Choose another name, or delete that service first.",
                pointer="/kind",
            )
        fresh_secret = None
        if given_secret is None and wish.kind is not ServiceKind.ADF and (before is None or before.secret is None):
            fresh_secret = new_secret()
        service_id = new_id() if before is None else before.service_id
        secret = given_secret or fresh_secret
        sealed = None if before is None else before.secret
        if secret is not None:
            vault.prepare(conn)
            sealed = vault.seal(secret, *secret_place(namespace, service_id))
        row = {
            "service_id": service_id,
            "namespace": namespace,
            "name": wish.name,
            "kind": wish.kind,
            "url": url,
            "settings": settings,
            "secret": sealed,
            "enabled": wish.enabled,
            "by": by,
        }
        if not external_services.put_service(conn, row):
            raise Refusal(Kind.CONFLICT, "put_at_once", "another caller has just created it", remedy="Try again.")
        stored = external_services.find_service(conn, namespace, wish.name)
        assert stored is not None
        add_audit(
            conn,
            namespace,
            by,
            "service.put",
            f"service {wish.name}",
            before={} if before is None else _shown(before),
            after={**_shown(stored), "secret_changed": secret is not None},
        )
    return ServicePut(stored, before is None, fresh_secret)


def delete_service(conn: Conn, namespace: str, name: str, *, by: str) -> int:
    """With its calls; how many were not delivered yet."""
    with conn.transaction():
        stored = external_services.find_service(conn, namespace, name, lock=True)
        if stored is None:
            raise no_service(name)
        unsettled = external_services.delete_service(conn, namespace, stored.service_id)
        before = {**_shown(stored), "calls_not_delivered": unsettled}
        add_audit(conn, namespace, by, "service.delete", f"service {name}", before=before)
    return unsettled


def retry_call(conn: Conn, namespace: str, service: StoredService, call_id: str, *, by: str) -> None:
    """Give a call that was given up another chance; its dead letter is settled with it."""
    with conn.transaction():
        lines = service_calls.list_calls(conn, namespace, service.service_id, call_id=call_id, limit=1)
        if not lines:
            raise not_found(
                f"call {call_id!r} of service {service.name!r}",
                remedy=f"`GET /api/v1/services/{service.name}/calls` lists them.",
            )
        if not service_calls.retry_call(conn, namespace, call_id):
            if lines[0].status == CallStatus.DEAD:
                raise Refusal(
                    Kind.CONFLICT,
                    "content_withdrawn",
                    f"what call {call_id} announces was withdrawn",
                    remedy="Approve other content, which is announced by a call of its own.",
                )
            raise Refusal(
                Kind.CONFLICT,
                "call_not_dead",
                f"call {call_id} is {lines[0].status}",
                remedy="Only a call that was given up can be retried.",
            )
        external_services.settle_letters(conn, namespace, call_id, by)
        add_audit(conn, namespace, by, "service.retry", f"service {service.name}", after={"call_id": call_id})


def no_service(name: str) -> Refusal:
    return not_found(f"external service {name!r}", remedy="`GET /api/v1/services` lists them.")


def _checked_url(url: str | None, rules: Rules, pointer: str) -> str:
    if url is None:
        raise Refusal(Kind.INVALID, "url_missing", "a service of this kind has a URL", pointer=pointer)
    try:
        return check_callback_url(url, rules)
    except CallbackRefused as error:
        raise CallbackRefused(error.message, pointer) from None


def _checked_settings(wish: ServiceWish, rules: Rules) -> dict[str, Any]:
    try:
        settings = SETTINGS_OF[wish.kind].model_validate(wish.settings)
    except ValidationError as error:
        places = [
            Place("/settings/" + "/".join(map(str, fault["loc"])), fault["msg"])
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise Refusal(
            Kind.INVALID,
            "invalid_settings",
            f"the settings do not fit a service of kind {wish.kind}",
            remedy="docs/external-services.md lists the settings of each kind.",
            places=places,
        ) from None
    if isinstance(settings, PipelineSettings) and settings.token_url is not None:
        _checked_url(settings.token_url, rules, "/settings/token_url")
    return settings.model_dump(mode="json", exclude_defaults=True)


def _checked_secret(wish: ServiceWish) -> str | None:
    if wish.secret is None:
        return None
    try:
        if wish.kind is not ServiceKind.ADF:
            return check_secret(wish.secret)
        if not wish.secret.isascii() or not wish.secret.isprintable() or " " in wish.secret:
            raise ValueError("a token or client secret has visible ASCII characters only")
    except ValueError as error:
        raise Refusal(Kind.INVALID, "invalid_secret", str(error), pointer="/secret") from None
    return wish.secret


def _shown(service: StoredService) -> dict[str, Any]:
    """What the audit trail keeps: never the secret."""
    names = ("name", "kind", "url", "settings", "enabled")
    return {name: value for name, value in service._asdict().items() if name in names}

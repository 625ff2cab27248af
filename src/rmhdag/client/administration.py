"""What operators do with the client: retention, quotas, processes, dead letters, callbacks, keys, audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rmhdag.client import calls
from rmhdag.client.bodies import checked
from rmhdag.client.sides import Iteration, Operation
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.audit import AuditView
from rmhdag.models.api.callbacks import CallbackView
from rmhdag.models.api.clients import ClientChanges, ClientView, IdentityRequest, IdentityView
from rmhdag.models.api.keys import KeyMade, KeyRequest, KeyView, RotationRequest
from rmhdag.models.api.processes import DrainAnswer, OrchestratorSummary, WorkerSummary
from rmhdag.models.api.queues import DeadLetterSummary, Discarded, QueueStatus, Requeued
from rmhdag.models.api.quotas import QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.scopes import Scope


class AdministrationOperations:
    @Operation
    def preview_retention(self) -> Steps[PrunePreview]:
        """What retention would delete now, by table, and why. Nothing is changed."""
        return (yield from ask(calls.preview_retention()))

    @Operation
    def prune(self) -> Steps[Pruned]:
        """Delete data past its retention, for a few seconds; call it again while `has_more` is true."""
        return (yield from ask(calls.prune()))

    @Operation
    def quotas(self) -> Steps[QuotaList]:
        """The quotas of the namespace, and how much of each is used."""
        return (yield from ask(calls.read_quotas()))

    @Operation
    def change_quotas(self, namespace: str, quotas: Mapping[str, int | None]) -> Steps[QuotaList]:
        """Set quotas of a namespace, with an admin key of the namespace `default`; None resets one."""
        return (yield from ask(calls.change_quotas(namespace, quotas)))

    @Iteration
    def clients(self) -> Items[ClientView]:
        """Clients of the gateway that have quotas of their own or are disabled."""
        yield from pages(calls.list_clients, lambda page: page.clients)

    @Operation
    def client(self, client_id: str) -> Steps[ClientView]:
        """What a client of the gateway may use."""
        return (yield from ask(calls.get_client(client_id)))

    @Operation
    def change_client(
        self, client_id: str, quotas: Mapping[str, int | None] | None = None, *, active: bool | None = None
    ) -> Steps[ClientView]:
        """Set quotas of a client of the gateway, or disable it; None resets a quota."""
        fields = {"quotas": dict(quotas or {}), "active": active}
        return (yield from ask(calls.change_client(client_id, checked(ClientChanges, fields))))

    @Operation
    def client_identities(self, client_id: str) -> Steps[list[IdentityView]]:
        """Whose tokens are those of a client of the gateway, beside its keys."""
        return (yield from ask(calls.list_client_identities(client_id))).identities

    @Operation
    def bind_client(
        self,
        client_id: str,
        issuer: str,
        scopes: Iterable[Scope | str],
        *,
        application: str | None = None,
        subject: str | None = None,
        expires_days: float | None = None,
    ) -> Steps[IdentityView]:
        """Let a client of the gateway use tokens of an issuer: those of an application, or those with a subject."""
        if (application is None) == (subject is None):
            raise ValueError("name an application or a subject")
        fields = {
            "issuer": issuer,
            "kind": "application" if subject is None else "subject",
            "value": application if subject is None else subject,
            "scopes": list(scopes),
            "expires_days": expires_days,
        }
        return (yield from ask(calls.bind_client(client_id, checked(IdentityRequest, fields))))

    @Operation
    def unbind_client(self, client_id: str, identity_id: str) -> Steps[IdentityView]:
        """Let the gateway refuse tokens of this identity from now on."""
        return (yield from ask(calls.unbind_client(client_id, identity_id)))

    @Operation
    def queues(self) -> Steps[list[QueueStatus]]:
        """Each queue with its waiting tasks and its workers."""
        return (yield from ask(calls.list_queues())).queues

    @Operation
    def workers(self) -> Steps[list[WorkerSummary]]:
        """The workers."""
        return (yield from ask(calls.list_workers())).workers

    @Operation
    def orchestrators(self) -> Steps[list[OrchestratorSummary]]:
        """The orchestrators."""
        return (yield from ask(calls.list_orchestrators())).orchestrators

    @Operation
    def drain_worker(self, worker_id: str) -> Steps[DrainAnswer]:
        """Make a worker finish or return its tasks within its stop time, and exit."""
        return (yield from ask(calls.drain_worker(worker_id)))

    @Operation
    def drain_orchestrator(self, owner_id: str) -> Steps[DrainAnswer]:
        """Make an orchestrator hand its jobs over to the others, and exit."""
        return (yield from ask(calls.drain_orchestrator(owner_id)))

    @Iteration
    def dead_letters(
        self,
        *,
        queue: str | None = None,
        reason: str | None = None,
        job_id: str | None = None,
        settled_too: bool = False,
    ) -> Items[DeadLetterSummary]:
        """Tasks that were given up, oldest first."""
        filters = {"queue": queue, "reason": reason, "job_id": job_id, "settled_too": settled_too}
        yield from pages(lambda cursor: calls.list_dead_letters(cursor, **filters), lambda page: page.dead_letters)

    @Operation
    def requeue(self, dead_letter_id: str) -> Steps[Requeued]:
        """Run the task of a dead letter again."""
        return (yield from ask(calls.requeue(dead_letter_id)))

    @Operation
    def discard(self, dead_letter_id: str) -> Steps[Discarded]:
        """Mark a dead letter as discarded."""
        return (yield from ask(calls.discard(dead_letter_id)))

    @Iteration
    def callbacks(self, *, status: str | None = None, job_id: str | None = None) -> Items[CallbackView]:
        """Callbacks and their outcomes, newest first."""
        yield from pages(
            lambda cursor: calls.list_callbacks(cursor, status=status, job_id=job_id), lambda page: page.callbacks
        )

    @Operation
    def redeliver(self, callback_id: str) -> Steps[CallbackView]:
        """Send a callback again."""
        return (yield from ask(calls.redeliver(callback_id)))

    @Iteration
    def keys(self, *, dead_too: bool = False) -> Items[KeyView]:
        """Keys of the namespace, without their secrets."""
        yield from pages(lambda cursor: calls.list_keys(cursor, dead_too=dead_too), lambda page: page.keys)

    @Operation
    def create_key(
        self,
        name: str,
        scopes: Iterable[Scope | str],
        *,
        expires_days: float | None = None,
        max_priority: int | None = None,
    ) -> Steps[KeyMade]:
        """Create a key; its `key` is shown only now. `max_priority` limits the jobs that it submits."""
        fields = {
            "name": name,
            "scopes": list(scopes),
            "expires_days": expires_days,
            "max_priority": max_priority,
        }
        return (yield from ask(calls.create_key(checked(KeyRequest, fields))))

    @Operation
    def rotate_key(
        self, key_id: str, *, overlap_hours: float = 24, expires_days: float | None = None
    ) -> Steps[KeyMade]:
        """Create the next key of the same owner; the old one works until the overlap ends."""
        fields = {"overlap_hours": overlap_hours, "expires_days": expires_days}
        return (yield from ask(calls.rotate_key(key_id, checked(RotationRequest, fields))))

    @Operation
    def revoke_key(self, key_id: str) -> Steps[KeyView]:
        """Revoke a key immediately."""
        return (yield from ask(calls.revoke_key(key_id)))

    @Iteration
    def audit(self, *, action: str | None = None, subject: str | None = None) -> Items[AuditView]:
        """The audit trail, newest first; `action` is a name such as `key.revoke`, or a kind such as `key`."""
        yield from pages(
            lambda cursor: calls.list_audit(cursor, action=action, subject=subject), lambda page: page.entries
        )

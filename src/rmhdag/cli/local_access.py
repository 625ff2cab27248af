"""Keys and the audit trail, for commands that work on the database."""

from __future__ import annotations

from rmhdag.cli.database import Conn
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.platform import NOT_ROTATED, no_key
from rmhdag.models.api.audit import AuditView
from rmhdag.models.api.keys import KeyMade, KeyRequest, KeyView, RotationRequest
from rmhdag.store import api_keys
from rmhdag.store.audit import list_audit


class LocalAccess:
    """A part of LocalPlatform."""

    conn: Conn
    _namespace: str
    _name: str

    def keys(self, *, dead_too: bool) -> list[KeyView]:
        found = api_keys.list_keys(self.conn, self._namespace, dead_too=dead_too, limit=10_000)
        return [KeyView.model_validate(line._asdict()) for line in found]

    def create_key(self, wanted: KeyRequest) -> KeyMade:
        made = api_keys.create_key(
            self.conn,
            wanted.name,
            frozenset(wanted.scopes),
            created_by=self._name,
            namespace=self._namespace,
            days=wanted.expires_days,
        )
        return self._with_secret(made)

    def rotate_key(self, key_id: str, wanted: RotationRequest) -> KeyMade:
        try:
            made = api_keys.rotate_key(
                self.conn,
                self._namespace,
                key_id,
                created_by=self._name,
                overlap_hours=wanted.overlap_hours,
                days=wanted.expires_days,
            )
        except api_keys.KeyUnknown:
            raise no_key(key_id) from None
        except api_keys.NotRotated as error:
            raise CommandFailed(
                str(error),
                remedy=NOT_ROTATED,
                code=ExitCode.CONFLICT,
            ) from None
        return self._with_secret(made)

    def revoke_key(self, key_id: str) -> KeyView:
        try:
            line = api_keys.revoke_key(self.conn, self._namespace, key_id, revoked_by=self._name)
        except api_keys.KeyUnknown:
            raise no_key(key_id) from None
        return KeyView.model_validate(line._asdict())

    def audit(self, *, action: str | None, subject: str | None, limit: int) -> list[AuditView]:
        found = list_audit(self.conn, self._namespace, action=action, subject=subject, limit=limit)
        return [AuditView.model_validate(line._asdict()) for line in found]

    def _with_secret(self, made: api_keys.NewKey) -> KeyMade:
        line = api_keys.find_key(self.conn, self._namespace, made.key_id)
        return KeyMade.model_validate({**line._asdict(), "key": made.key})

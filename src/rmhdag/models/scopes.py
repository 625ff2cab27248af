"""What a key may do. `admin` includes all that concerns its namespace, except that only `worker` keys take tasks.

`reviewer` decides about content: approve, reject, revoke. It includes nothing else.

`platform` is about what no namespace owns: the schema, retention, processes and the audit trail of all namespaces. It
includes nothing else, and nothing includes it.

Keys of partners are for the gateway: `b2b` orders there, `ops` also looks at jobs, `reviewer` decides on content, and
with `sandbox` every order is a dry run. `gateway` is for the gateway itself, which acts for its callers.
"""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    REVIEWER = "reviewer"
    ADMIN = "admin"
    WORKER = "worker"
    PLATFORM = "platform"
    B2B = "b2b"
    OPS = "ops"
    SANDBOX = "sandbox"
    GATEWAY = "gateway"


# What tokens of partners may be worth at the gateway.
PARTNER_SCOPES = frozenset({Scope.B2B, Scope.OPS, Scope.REVIEWER, Scope.SANDBOX})
# What a gateway may do in the name of one of its callers.
ACTED_SCOPES = frozenset({Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.REVIEWER})

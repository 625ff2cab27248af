"""How a command on the same machine shows itself to the API: by a secret that only its owner can read.

A process that can read it can read the database too, so it grants everything, in any namespace and for any name.
A gateway names its caller by the same headers, beside its own key.
"""

from __future__ import annotations

import secrets
from urllib.parse import quote

LOCAL_PREFIX = "rmhdag-local-"
NAMESPACE_HEADER = "X-Rmhdag-Namespace"
NAME_HEADER = "X-Rmhdag-Name"
# Only of a gateway: what its caller may do, separated by spaces.
SCOPES_HEADER = "X-Rmhdag-Scopes"
NAME_CHARACTERS = 64


def new_local_secret() -> str:
    return LOCAL_PREFIX + secrets.token_urlsafe(32)


def local_headers(namespace: str, name: str) -> dict[str, str]:
    """Names may have any letters, headers only those of ASCII."""
    return {NAMESPACE_HEADER: quote(namespace, safe=""), NAME_HEADER: quote(name, safe="")}

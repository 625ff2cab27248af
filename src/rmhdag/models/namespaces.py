"""What belongs to a namespace has a name of its own wherever names are shared: folders, containers, ids outside."""

from __future__ import annotations

import re
from hashlib import sha256

DEFAULT = "default"
RESERVED = "namespace-"
# What Azure takes as a container too: an account may be a zone.
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HASHED = re.compile(r".*-[0-9a-f]{20}")
_MOST_PLAIN_LETTERS = 50


def home_of(namespace: str) -> str:
    """The folder that holds what belongs to a namespace; empty for `default`, whose things lie beside these folders.

    Every kind of store takes it, and no two namespaces share one.
    """
    if namespace == DEFAULT:
        return ""
    is_plain = len(namespace) <= _MOST_PLAIN_LETTERS and _PLAIN.fullmatch(namespace) is not None
    if is_plain and not _HASHED.fullmatch(namespace):
        return f"{RESERVED}{namespace}"
    letters = "-".join(re.findall(r"[a-z0-9]+", namespace.lower()))[:24].strip("-")
    return f"{RESERVED}{letters or 'x'}-{sha256(namespace.encode(errors='surrogatepass')).hexdigest()[:20]}"

"""Where scripts/setup has put what tests talk to: outside of the repository, under a hash of the file that pins it."""

import hashlib
import os
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"


def pinned_folder(name: str, pinned_by: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made_from = hashlib.sha256((REQUIREMENTS / pinned_by).read_bytes()).hexdigest()
    return cache / "rmhdag" / f"{name}-{made_from[:12]}"

"""Files that a phase left behind: what a checkpoint promises about them, and whether it still holds."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path
from typing import Any


class ArtifactError(ValueError):
    """The file is not what the checkpoint says."""


def sealed_data(data: Any) -> Any:
    """The data with the hash and size of its artifact filled in; a hash that is given must be right."""
    artifact = _artifact_of(data)
    if artifact is None:
        return data
    measured = _measure(artifact)
    given = artifact.get("sha256")
    if given is not None and given != measured["sha256"]:
        raise ArtifactError(
            f"artifact {artifact['path']}: its SHA-256 is {measured['sha256']}, the checkpoint says {given}: "
            "finish writing the file before the checkpoint"
        )
    return {**data, "artifact": {**artifact, **measured}}


def verify_artifact(data: Any) -> None:
    """Raise unless the file is still what it was when the checkpoint was saved."""
    artifact = _artifact_of(data)
    if artifact is None:
        return
    measured = _measure(artifact)
    if artifact.get("sha256") != measured["sha256"]:
        raise ArtifactError(f"artifact {artifact['path']} has changed since its checkpoint was saved")


def artifact_hash(data: Any) -> str | None:
    artifact = _artifact_of(data)
    return None if artifact is None else artifact.get("sha256")


def _artifact_of(data: Any) -> dict[str, Any] | None:
    artifact = data.get("artifact") if isinstance(data, dict) else None
    if artifact is None:
        return None
    if not isinstance(artifact, dict) or not isinstance(artifact.get("path"), str):
        raise ArtifactError('checkpoint data at "/artifact": give {"path": …}, and optionally its "sha256"')
    return artifact


def _measure(artifact: dict[str, Any]) -> dict[str, Any]:
    path = Path(artifact["path"])
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            return {"sha256": digest, "size_bytes": file.tell()}
    except OSError as error:
        raise ArtifactError(f"artifact {path} cannot be read: {error.strerror or error}") from error

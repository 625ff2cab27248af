"""Files of a finished phase: what a checkpoint states about them, and whether it is still true."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path
from typing import Any


class ArtifactError(ValueError):
    """The file differs from the checkpoint's description."""


def sealed_data(data: Any) -> Any:
    """The data with the hash and size of its artifact; an expected hash must match."""
    artifact = _artifact_of(data)
    if artifact is None:
        return data
    measured = _measure(artifact)
    expected = artifact.get("sha256")
    if expected is not None and expected != measured["sha256"]:
        raise ArtifactError(
            f"artifact {artifact['path']}: its SHA-256 is {measured['sha256']}, the checkpoint says {expected}: "
            "finish writing the file before the checkpoint"
        )
    return {**data, "artifact": {**artifact, **measured}}


def verify_artifact(data: Any) -> None:
    """Raise unless the file is unchanged since the checkpoint was saved."""
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

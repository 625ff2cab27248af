"""The check of `rmhdag doctor` on blob storage: each zone is written, read and cleared again."""

from __future__ import annotations

import secrets

from rmhdag.cli.checks import Finding
from rmhdag.cli.settings import Settings
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.namespaces import DEFAULT
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageError, StorageSettings, open_storage

CONTAINER = "rmhdag-doctor"
WANTED = "bronze, silver and gold can be written and read"
REMEDY = "Correct RMHDAG_STORAGE, RMHDAG_STORAGE_OPTIONS or the rights there; `rmhdag config show` lists them."


def check_storage(settings: Settings) -> Finding:
    configured = settings.storage_settings()
    if not configured.is_given:
        remedy = "Set RMHDAG_STORAGE where workers run; `rmhdag up` uses its own folder."
        return Finding("storage", "warning", "not configured", WANTED, remedy)
    try:
        storage = open_storage(configured, DEFAULT)
    except StorageError as error:
        return Finding("storage", "failed", str(error), WANTED, REMEDY)
    wrong = [problem for zone in Zone if (problem := find_problem(storage, configured, zone))]
    return Finding("storage", "failed" if wrong else "ok", "; ".join(wrong) or configured.describe(), WANTED, REMEDY)


def find_problem(storage: Storage, configured: StorageSettings, zone: Zone) -> str:
    if configured.is_account(zone):
        return ""  # whose containers are not ours to make
    probe, content = BlobAddress(zone, CONTAINER, secrets.token_hex(8)), secrets.token_bytes(16)
    try:
        storage.write(probe, content)
        answer = storage.read(probe)
        storage.delete(probe)
    except (StorageError, OSError) as error:
        return f"{zone}: {error}"
    return "" if answer == content else f"{zone}: the content read differs from the content written"

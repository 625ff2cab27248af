"""What is unpublished, as it is shown: every file and item, up to a limit that an answer can carry."""

from __future__ import annotations

from rmhdag.models.api.assets import UnpublishAnswer, UnpublishedFile
from rmhdag.store.unpublishing import Unpublished

MOST_LISTED = 10_000


def answer_of(done: Unpublished, *, dry_run: bool) -> UnpublishAnswer:
    preview = done.preview
    deleted = preview.deleted_files
    status = done.status if preview.revisions else "nothing_left"
    return UnpublishAnswer.model_validate(
        {
            "asset_id": preview.asset_id,
            "dry_run": dry_run,
            "status": "dry_run" if dry_run and preview.revisions else status,
            "revisions": preview.numbers,
            "approved_revisions": preview.approved,
            "unpublishing_ids": list(done.unpublishing_ids.values()),
            "file_count": len(deleted),
            "shared_file_count": len(preview.files) - len(deleted),
            "size_bytes": sum(file.size_bytes for file in deleted),
            "item_count": len(preview.items),
            "files": [
                UnpublishedFile.model_validate(
                    {
                        "zone": file.zone,
                        "container": file.container,
                        "path": file.path,
                        "size_bytes": file.size_bytes,
                        "revision": file.revision,
                        "shared_with": file.also_of,
                    }
                )
                for file in preview.files[:MOST_LISTED]
            ],
            "items": preview.items[:MOST_LISTED],
            "tables": [table.table_name for table in preview.dropped_tables[:MOST_LISTED]],
            "promoted": preview.outside,
            "notices": done.notices,
        }
    )

"""Examples of the OpenAPI document; a test compares each with its schema."""

from __future__ import annotations

from typing import Any

REQUEST_ID = "5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e"
REFS = {"dataset_id": "0038272", "resource_id": "flood-depth"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "Order": {
        "workflow_id": "raster_processing",
        "platform_id": "ddh",
        "platform_refs": REFS,
        "input_params": {"container_name": "uploads", "blob_name": "flood_depth.tif", "item_id": "flood-depth"},
        "callback_url": "https://partner.example.org/hooks/rmhdag",
        "labels": {"aoi": "oslo"},
    },
    "OrderAccepted": {
        "request_id": REQUEST_ID,
        "workflow_id": "raster_processing",
        "submitted_at": "2026-01-31T12:00:00Z",
        "status": "accepted",
        "links": {
            "status": f"/platform/status/{REQUEST_ID}",
            "results": f"/platform/results/{REQUEST_ID}",
        },
    },
    "Status": {
        "request_id": REQUEST_ID,
        "workflow_id": "raster_processing",
        "platform_id": "ddh",
        "platform_refs": REFS,
        "labels": {"aoi": "oslo"},
        "status": "failed",
        "submitted_at": "2026-01-31T12:00:00Z",
        "completed_at": "2026-01-31T12:00:09Z",
        "updated_at": "2026-01-31T12:00:09Z",
        "expires_at": None,
        "progress": {"percent": 25.0, "message": "the raster has no coordinate reference system"},
        "partial": False,
        "result": None,
        "error": {
            "code": "CRS_MISSING",
            "category": "data_quality",
            "message": "the raster has no coordinate reference system",
            "remediation": "Add it to the file (gdal_edit.py -a_srs EPSG:…, ogr2ogr -a_srs EPSG:…) and order again.",
            "user_fixable": True,
        },
        "warnings": [{"code": "NODATA_GUESSED", "message": "-9999 is probably no data", "count": 1}],
        "services": None,
        "version": None,
        "versions": [],
    },
    "Problem": {
        "type": "urn:rmhdag:problem:invalid_request",
        "title": "Unprocessable Entity",
        "status": 422,
        "code": "invalid_request",
        "detail": "limit is a number from 1 to 500",
        "errors": [{"pointer": "/query/limit", "detail": "limit is a number from 1 to 500"}],
    },
}

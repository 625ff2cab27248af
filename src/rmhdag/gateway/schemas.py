"""The shapes of everything that partners send and get, as JSON Schema: answers have these keys and no others."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def closed(**properties: Schema) -> Schema:
    """An object with exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def partly(needed: Schema, optional: dict[str, Schema]) -> Schema:
    return {**needed, "properties": {**needed["properties"], **optional}}


def text(description: str | None = None, **more: Any) -> Schema:
    return {"type": "string", **({"description": description} if description else {}), **more}


def optional(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {
        **schema,
        "type": [schema["type"], "null"],
        **({"enum": [*schema["enum"], None]} if "enum" in schema else {}),
    }


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def page(name: str, line: str) -> Schema:
    return closed(**{name: listed(ref(line)), "next_cursor": optional(text("Of the next page; null on the last one"))})


MOMENT = text(format="date-time")
ANYTHING: Schema = {"type": "object", "additionalProperties": True}
REFS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
LABELS: Schema = {**REFS, "description": "The labels that you gave the order"}
NUMBER: Schema = {"type": "integer"}
SECONDS: Schema = {"type": "number", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
REQUEST_ID = text("The id of the order", example="5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e")
STATE = text("completed and failed are final", enum=["pending", "running", "awaiting_approval", "completed", "failed"])
LINKS = closed(status=text(), results=text())

ABOUT_DATA: dict[str, Schema] = {
    "code": text("Never changes its meaning"),
    "category": text("Who can do something about it"),
    "remediation": optional(text("What to do")),
    "user_fixable": {**FLAG, "description": "You can correct it and order again"},
}
PARTIAL = optional({**FLAG, "description": "Parts of it have failed; null if that is not known"})
EXPIRY = optional({**MOMENT, "description": "Until then it is kept; null: until the data is unpublished or deleted"})

ORDER_FIELDS: dict[str, Schema] = {
    "workflow_id": text("What to do: GET /platform/workflows lists them", minLength=1, maxLength=64),
    "request_id": optional(text("Your own id of the order; without it, one is made", minLength=1, maxLength=64)),
    "platform_id": optional(text("Whose references these are: GET /platform/registry lists platforms", maxLength=64)),
    "platform_refs": optional({**REFS, "description": "What your platform calls the data", "maxProperties": 20}),
    "input_params": {**ANYTHING, "description": "Parameters of the workflow"},
    "callback_url": optional(text("Is called once when the order ends; https, and public", maxLength=2048)),
    "priority": {"type": "integer", "minimum": 0, "maximum": 10, "description": "10 is most urgent"},
    "idempotency_key": optional(text("As the header Idempotency-Key", minLength=1, maxLength=128)),
    "supersede": {"type": "boolean", "description": "Replace an order with other parameters that is under way"},
    "previous_version": optional(text("Refused unless this is the version that is served now", maxLength=200)),
    "labels": {**REFS, "description": "Keys and texts of your own, to find the order by", "maxProperties": 16},
    "dry_run": {"type": "boolean", "description": "Check everything, and order nothing"},
}
ADDRESS_FIELDS: dict[str, Schema] = {
    "request_id": text("An order for the asset", minLength=1, maxLength=64),
    "platform_id": text("Instead of request_id, with platform_refs", maxLength=64),
    "platform_refs": REFS,
    "revision": {"type": "integer", "minimum": 1, "description": "Default: that of the request, or the newest"},
}
OGC_LINKS: Schema = {
    "type": "array",
    "items": closed(href=text(), rel=text(), type=text(), title=text()),
}
OGC_SUMMARY: dict[str, Schema] = {
    "id": text(),
    "version": text(),
    "title": text(),
    "description": text(),
    "jobControlOptions": listed(text()),
    "outputTransmission": listed(text()),
    "links": OGC_LINKS,
}
DECISION_FIELDS: dict[str, Schema] = {
    **ADDRESS_FIELDS,
    "content_hash": text("Of the content that was reviewed", minLength=1, maxLength=64),
    "reason": text("Required to reject and to revoke", maxLength=2000),
}
GATE = text("Where the order waits, as GET /platform/approvals shows it", minLength=1, maxLength=200)
CLEARANCE = text("Who may see it; needed to approve", enum=["restricted", "public"])

SCHEMAS: dict[str, Schema] = {
    "Order": {"type": "object", "properties": ORDER_FIELDS, "required": ["workflow_id"]},
    "OrderBatch": closed(orders={**listed(ref("Order")), "minItems": 1, "maxItems": 100}),
    "OrderAccepted": closed(
        request_id=REQUEST_ID,
        workflow_id=text(),
        submitted_at=MOMENT,
        status=text(enum=["accepted"]),
        links=LINKS,
    ),
    "Plan": closed(
        valid={**FLAG, "description": "The order would be accepted"},
        outcome=text(enum=["create", "join", "repeat", "conflict", "invalid"]),
        workflow_id=text(),
        input_params=optional(ANYTHING),
        version=optional(text("What your platform would call it")),
        waits_for_review={**FLAG, "description": "The data would be seen only after an approval"},
        served_version=optional(text("The version that can be seen now")),
        estimate=optional(ref("Estimate")),
        problems=listed(
            closed(
                code=text(),
                pointer=text("RFC 6901, into the order"),
                detail=text(),
                error=optional({**closed(**ABOUT_DATA), "description": "If it is about data"}),
            )
        ),
        warnings=listed(closed(code=text(), message=text())),
    ),
    "Estimate": closed(
        tasks=optional({**NUMBER, "description": "Null if their number depends on what is found on the way"}),
        input_bytes=optional({**NUMBER, "description": "Of the files that are named; null if that is not known"}),
        p50_seconds=optional({**SECONDS, "description": "Half of such orders took no longer, in the last 30 days"}),
        p95_seconds=optional({**SECONDS, "description": "95 of 100 such orders took no longer"}),
    ),
    "DryRun": closed(dry_run={"type": "boolean", "enum": [True]}, plan=ref("Plan")),
    "BatchAnswer": closed(accepted=NUMBER, refused=NUMBER, orders=listed(ANYTHING)),
    "Progress": closed(
        percent={"type": "number", "minimum": 0, "maximum": 100},
        message=text("For people; its words may change"),
    ),
    "Error": closed(**ABOUT_DATA, message=text()),
    "Warning": closed(code=text(), message=text(), count=NUMBER),
    "Services": closed(
        **{
            name: optional(text())
            for name in ("service_url", "preview", "viewer", "tiles", "stac_collection", "stac_item")
        }
    ),
    "Version": closed(
        number=NUMBER,
        version=optional(text("What your platform calls it")),
        status=text(),
        review=text(enum=["none", "pending_review", "approved", "rejected", "revoked", "superseded"]),
        clearance=text(enum=["undecided", "restricted", "public"]),
        is_served=FLAG,
        created_at=MOMENT,
        completed_at=optional(MOMENT),
    ),
    "Status": closed(
        request_id=REQUEST_ID,
        workflow_id=text(),
        platform_id=optional(text()),
        platform_refs=REFS,
        labels=LABELS,
        status=STATE,
        submitted_at=MOMENT,
        completed_at=optional(MOMENT),
        updated_at={**MOMENT, "description": "When it last changed"},
        expires_at=EXPIRY,
        progress=ref("Progress"),
        partial=PARTIAL,
        result=optional(ANYTHING),
        error=optional(ref("Error")),
        warnings=listed(ref("Warning")),
        services=optional(ref("Services")),
        version=optional(text()),
        versions=listed(ref("Version")),
    ),
    "Results": closed(
        request_id=REQUEST_ID,
        status=STATE,
        partial=PARTIAL,
        completed_at=optional(MOMENT),
        expires_at=EXPIRY,
        result=optional(ANYTHING),
        error=optional(ref("Error")),
        warnings=listed(ref("Warning")),
        services=optional(ref("Services")),
        version=optional(text()),
        files=listed(ref("File")),
        links=listed(partly(closed(rel=text(), href=text()), {"type": text()})),
    ),
    "File": closed(
        name=text(),
        href=text("Where it can be fetched, with your key; ranges of bytes too"),
        media_type=optional(text()),
        size_bytes=NUMBER,
        sha256=text(),
    ),
    "FileBytes": {"type": "string", "format": "binary"},
    "RequestLine": closed(
        request_id=REQUEST_ID,
        workflow_id=text(),
        platform_id=optional(text()),
        platform_refs=REFS,
        labels=LABELS,
        version=optional(text()),
        status=STATE,
        submitted_at=MOMENT,
        completed_at=optional(MOMENT),
    ),
    "RequestPage": page("requests", "RequestLine"),
    "Reason": {"type": "object", "properties": {"reason": text(maxLength=2000)}},
    "Command": closed(request_id=REQUEST_ID, status=text(enum=["accepted", "cancelling", "cancelled"])),
    "Delivery": closed(
        delivery_id=text("The `webhook-id` of every try"),
        status=text(enum=["pending", "delivered", "dead", "disabled"]),
        url=text(),
        attempts=NUMBER,
        created_at=MOMENT,
        last_attempt_at=optional(MOMENT),
        next_attempt_at=optional(MOMENT),
        last_status=optional(NUMBER),
    ),
    "DeliveryList": closed(deliveries=listed(ref("Delivery"))),
    "Asset": closed(
        platform_id=text(),
        platform_refs=REFS,
        kind=text(enum=["raster", "vector", "dataset"]),
        status=text(),
        review=text(),
        clearance=text(),
        created_at=MOMENT,
        updated_at=MOMENT,
        versions=listed(ref("Version")),
    ),
    "AssetPage": page("assets", "Asset"),
    "AssetDeleted": closed(platform_id=text(), platform_refs=REFS, deleted=FLAG),
    "Lookup": partly(
        closed(found=FLAG, reason=optional(text()), suggestion=optional(text())),
        {
            "request_id": REQUEST_ID,
            "platform_id": text(),
            "platform_refs": REFS,
            "kind": text(),
            "version": optional(text()),
            "services": optional(ref("Services")),
        },
    ),
    "Platform": closed(
        platform_id=text(),
        identity_refs=listed(text()),
        optional_refs=listed(text()),
        version_ref=optional(text()),
        review=text(enum=["none", "required", "four_eyes"]),
    ),
    "PlatformList": closed(platforms=listed(ref("Platform"))),
    "WorkflowList": closed(
        workflows=listed(
            closed(
                workflow_id=text(),
                name=optional(text()),
                description=optional(text()),
                produces=optional(text()),
                inputs=ANYTHING,
            )
        )
    ),
    "Gate": closed(
        gate=text("Name it in the decision, instead of a content_hash"),
        message=optional(text("What reviewers are asked")),
        approvers=listed(text("Who may decide; nobody named: all reviewers")),
        waiting_since=MOMENT,
        deadline_at=optional(MOMENT),
    ),
    "Review": closed(
        platform_id=text(),
        platform_refs=REFS,
        kind=text(),
        revision=NUMBER,
        version=optional(text()),
        content_hash=optional(text()),
        review=text(),
        clearance=text(),
        submitted_by=text(),
        created_at=MOMENT,
        decided_at=optional(MOMENT),
        reason=optional(text()),
        gates={**listed(ref("Gate")), "description": "Where the order waits in its middle; decide each by its name"},
    ),
    "ReviewPage": page("reviews", "Review"),
    "Decision": {
        "type": "object",
        "properties": {**DECISION_FIELDS, "gate": GATE, "clearance": CLEARANCE},
        "anyOf": [{"required": ["content_hash"]}, {"required": ["gate"]}],
    },
    "Revocation": {"type": "object", "properties": DECISION_FIELDS, "required": ["content_hash", "reason"]},
    "ClearanceChange": {
        "type": "object",
        "properties": {**DECISION_FIELDS, "clearance": text(enum=["public"])},
        "required": ["content_hash"],
    },
    "Decided": closed(decision=text(enum=["approve", "reject", "revoke", "clear"]), version=ANYTHING),
    "Address": {"type": "object", "properties": ADDRESS_FIELDS},
    "Unpublishing": {
        "type": "object",
        "properties": {**ADDRESS_FIELDS, "dry_run": FLAG, "force": FLAG, "reason": text(maxLength=2000)},
    },
    "Unpublished": closed(dry_run=FLAG, plan=ANYTHING),
    "RolledBack": closed(rolled_back_to=NUMBER, number=NUMBER),
    "Me": closed(
        client_id=text(),
        key=optional(text("The beginning of the key; null with a token")),
        scopes=listed(text()),
        sandbox={**FLAG, "description": "Every order is a dry run"},
        expires_at=optional(MOMENT),
        quotas=closed(requests=listed(closed(limit=NUMBER, seconds=NUMBER)), open_orders=NUMBER, orders_per_day=NUMBER),
    ),
    "Rotation": {
        "type": "object",
        "properties": {
            "overlap_hours": {"type": "number", "minimum": 0, "maximum": 720},
            "expires_days": {"type": "number", "exclusiveMinimum": 0, "maximum": 3650},
        },
    },
    "NewKey": closed(key=text("Shown only now"), expires_at=optional(MOMENT)),
    "Health": closed(status=text(enum=["healthy", "degraded"]), ready_for_jobs=FLAG),
    "OgcLanding": closed(title=text(), description=text(), links=OGC_LINKS),
    "OgcConformance": closed(conformsTo=listed(text())),
    "OgcProcessList": closed(processes=listed(closed(**OGC_SUMMARY)), links=OGC_LINKS),
    "OgcProcess": closed(**OGC_SUMMARY, inputs=ANYTHING, outputs=ANYTHING),
    "OgcExecute": {
        "type": "object",
        "properties": {"inputs": ANYTHING, "outputs": ANYTHING, "response": text(), "subscriber": ANYTHING},
    },
    "OgcJob": partly(
        closed(
            processID=text(),
            type=text(enum=["process"]),
            jobID=REQUEST_ID,
            status=text(enum=["accepted", "running", "successful", "failed", "dismissed"]),
            created=MOMENT,
            links=OGC_LINKS,
        ),
        {
            "finished": MOMENT,
            "updated": MOMENT,
            "message": text(),
            "progress": {"type": "integer", "minimum": 0, "maximum": 100},
        },
    ),
    "OgcJobList": closed(jobs=listed(ref("OgcJob")), links=OGC_LINKS),
    "OgcResults": ANYTHING,
    "Operators": ANYTHING,
    "Problem": partly(
        closed(
            type=text("`urn:rmhdag:problem:` and the code"),
            title=text(),
            status=NUMBER,
            code=text("A word for programs; it does not change"),
            detail=text(),
            errors=listed(
                partly(closed(pointer=text("RFC 6901, into the body; or `/query/limit`"), detail=text()), ABOUT_DATA)
            ),
        ),
        {"remedy": text(), "request_id": REQUEST_ID, "checks": ANYTHING},
    ),
}

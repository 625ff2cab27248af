"""Assets under the names that partners gave them: look them up, decide on them, take them back.

An asset is addressed by its references or by a request for it; ids of ours are never needed.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from rmhdag.gateway.calls import Call
from rmhdag.gateway.database import Row
from rmhdag.gateway.orders import services
from rmhdag.gateway.problems import Problem, invalid, not_found
from rmhdag.gateway.reads import Place
from rmhdag.models.partner_orders import moment, segment, shown_text, shown_value, shown_version, state_of
from rmhdag.models.scopes import Scope

REVIEW_STATES = ("pending_review", "approved", "rejected", "revoked")
ADDRESS = frozenset({"request_id", "platform_id", "platform_refs", "revision"})


async def list_assets(call: Call) -> Response:
    """Assets that this client has ordered, newest first; references narrow them down."""
    lines = await call.gateway.reads.list_assets(
        call.holder,
        platform_id=call.query("platform_id"),
        refs=call.references("platform_id", "limit", "cursor"),
        before=call.cursor(),
        limit=call.limit() + 1,
    )
    return call.page("assets", lines, shown_asset, lambda row: Place(row["created_at"], row["asset_id"]))


async def get_asset(call: Call) -> Response:
    """One asset with its versions, by all its references."""
    return call.answer(shown_asset(await find_by_refs(call, call.path["platform_id"], call.references())))


async def delete_asset(call: Call) -> Response:
    """No longer show an asset; its files and its history stay."""
    row = await find_by_refs(call, call.path["platform_id"], call.references())
    path = f"/api/v1/assets/{segment(row['asset_id'])}"
    await call.gateway.forwarder.send(call.holder, "DELETE", path, scopes=(Scope.OPERATE,), repeatable=True)
    return call.answer({"platform_id": row["platform_id"], "platform_refs": row["platform_refs"], "deleted": True})


async def look_up(call: Call) -> Response:
    """Whether content for these references can be seen, and where; else why not."""
    refs = call.references("platform_id")
    platform_id = call.query("platform_id")
    if not refs:
        raise invalid("name at least one reference, such as dataset_id", "/query")
    lines = await call.gateway.reads.list_requests(
        call.holder, state=None, since=None, refs=refs, before=None, limit=100
    )
    lines = [line for line in lines if platform_id in (None, line["platform_id"])]
    if not lines:
        return call.answer(nothing("no_platform_request", "Place an order with these references first."))
    done = next((line for line in lines if state_of(line) == "completed"), None)
    if done is None:
        remedy = f"Its newest order is {state_of(lines[0])}: ask for its status."
        return call.answer({**nothing("job_not_completed", remedy), "request_id": lines[0]["request_id"]})
    name = done["platform_request_id" if call.holder.sees_all else "request_id"]
    sighting = await call.gateway.reads.find_request(call.holder, name)
    row = None if sighting is None else sighting[0]
    if row is None or row["asset_id"] is None or row["is_deleted"] or row["is_unpublished"]:
        return call.answer(nothing("asset_not_found", "The asset was deleted or unpublished; order it again."))
    return call.answer(
        {
            "found": True,
            "reason": None,
            "suggestion": None,
            "request_id": row["request_id"],
            "platform_id": row["platform_id"],
            "platform_refs": row["platform_refs"],
            "kind": row["kind"],
            "version": row["version_label"],
            "services": services(call, row),
        }
    )


async def list_platforms(call: Call) -> Response:
    """Platforms that may order, and the references that each of them gives."""
    call.allow()
    lines = await call.gateway.reads.list_platforms(call.holder)
    return call.answer({"platforms": [shown_platform(line) for line in lines]})


async def get_platform(call: Call) -> Response:
    """One platform."""
    call.allow()
    for line in await call.gateway.reads.list_platforms(call.holder):
        if line["platform_id"] == call.path["platform_id"]:
            return call.answer(shown_platform(line))
    raise not_found("platform")


async def list_workflows(call: Call) -> Response:
    """What can be ordered, and the parameters that each order takes."""
    call.allow()
    lines = await call.gateway.reads.list_workflows(call.holder)
    names = ("workflow_id", "name", "description", "produces")
    workflows = [{**{name: line[name] for name in names}, "inputs": shown_inputs(line["inputs"])} for line in lines]
    return call.answer({"workflows": workflows})


# -- decisions -----------------------------------------------------------------------------------------------------


async def list_reviews(call: Call) -> Response:
    """Content in a state of review, newest first. A decision names its revision and its content hash."""
    call.allow("status", "limit", "cursor")
    text = call.query("status")
    state = "pending_review" if text is None else text
    if state not in REVIEW_STATES:
        raise invalid(f"status is one of {', '.join(REVIEW_STATES)}", "/query/status")
    lines = await call.gateway.reads.list_reviews(
        call.holder, state=state, before=call.cursor(), limit=call.limit() + 1
    )
    return call.page("reviews", lines, shown_review, lambda row: Place(row["created_at"], row["asset_id"]))


async def approve(call: Call) -> Response:
    """Approve content that was reviewed, so that it is served."""
    return await decide(call, "approve")


async def reject(call: Call) -> Response:
    """Reject content, with the reason."""
    return await decide(call, "reject")


async def revoke(call: Call) -> Response:
    """Take an approval back, with the reason."""
    return await decide(call, "revoke")


async def decide(call: Call, verb: str) -> Response:
    call.allow()
    body = await call.body()
    asset_id, revision = await address_of(call, body)
    content_hash = body.get("content_hash")
    if not isinstance(content_hash, str):
        raise invalid(
            "name the content_hash of what was reviewed, as GET /platform/approvals shows it", "/content_hash"
        )
    decision = {name: value for name, value in body.items() if name not in ADDRESS}
    path = f"/api/v1/assets/{segment(asset_id)}/revisions/{revision}/{verb}"
    await call.gateway.forwarder.send(
        call.holder, "POST", path, scopes=(Scope.READ, Scope.REVIEWER), body=decision, own=call.own
    )
    version = await call.gateway.reads.find_version(call.holder, asset_id, revision)
    if version is None:
        raise not_found("version")
    return call.answer({"decision": verb, "version": shown_version(version, None) | {"content_hash": content_hash}})


async def rollback(call: Call) -> Response:
    """Serve an earlier version again, as a new one with the same content."""
    call.allow()
    body = await call.body()
    asset_id, revision = await address_of(call, body)
    path = f"/api/v1/assets/{segment(asset_id)}/rollback"
    answer = await call.gateway.forwarder.send(
        call.holder, "POST", path, scopes=(Scope.OPERATE,), body={"revision": revision}, own=call.own
    )
    return call.answer({"rolled_back_to": revision, "number": answer.json()["revision"]}, 201)


async def unpublish(call: Call) -> Response:
    """Take content back: files, tables and catalogue entries. A dry run, unless `dry_run` is false."""
    call.allow()
    body = await call.body()
    asset_id, revision = await address_of(call, body)
    order = {"dry_run": True, **{name: value for name, value in body.items() if name not in ADDRESS}}
    # An order names its own version. References without a number or a version name all of them.
    if names_version(body, await version_ref_of(call, body.get("platform_id"))):
        order["revision"] = revision
    answer = await call.gateway.forwarder.send(
        call.holder,
        "POST",
        f"/api/v1/assets/{segment(asset_id)}/unpublish",
        scopes=(Scope.READ, Scope.OPERATE),
        body=order,
        repeatable=order["dry_run"] is True,
        own=call.own,
    )
    return call.answer({"dry_run": order["dry_run"], "plan": shown_value(answer.json())}, answer.status_code)


async def address_of(call: Call, body: dict[str, Any]) -> tuple[str, int]:
    """The asset and the revision that a body names, by a request or by references."""
    revision = body.get("revision")
    if revision is not None and (
        not isinstance(revision, int) or isinstance(revision, bool) or not 1 <= revision < 2**31
    ):
        raise invalid("revision is the number of a version", "/revision")
    request_id = body.get("request_id")
    if request_id is not None:
        if not isinstance(request_id, str) or not 0 < len(request_id) <= 64 or "\0" in request_id:
            raise invalid("request_id is the id of an order", "/request_id")
        sighting = await call.gateway.reads.find_request(call.holder, request_id)
        if sighting is None or sighting[0]["asset_id"] is None:
            raise not_found()
        return sighting[0]["asset_id"], revision or sighting[0]["revision"]
    platform_id, refs = body.get("platform_id"), body.get("platform_refs")
    if not isinstance(platform_id, str) or not isinstance(refs, dict) or not refs:
        raise invalid("name an asset by request_id, or by platform_id and platform_refs", "/request_id")
    if "\0" in platform_id or not all(
        isinstance(value, str) and "\0" not in value + name for name, value in refs.items()
    ):
        raise invalid("references are text", "/platform_refs")
    row = await find_by_refs(call, platform_id, refs)
    label = refs.get(await version_ref_of(call, platform_id) or "")
    versions = [line["revision"] for line in row["versions"] or [] if label in (None, line["version_label"])]
    if not versions and revision is None:
        raise not_found("version")
    return row["asset_id"], revision or versions[0]


def names_version(body: dict[str, Any], version_ref: str | None) -> bool:
    refs = body.get("platform_refs")
    return any(body.get(name) is not None for name in ("revision", "request_id")) or (
        isinstance(refs, dict) and version_ref in refs
    )


async def version_ref_of(call: Call, platform_id: Any) -> str | None:
    """The reference that is a version label: it belongs to revisions, and not to the asset."""
    for line in await call.gateway.reads.list_platforms(call.holder):
        if line["platform_id"] == platform_id:
            return None if line["version_ref"] is None else str(line["version_ref"])
    return None


async def find_by_refs(call: Call, platform_id: str, refs: dict[str, str]) -> Row:
    if not refs:
        raise invalid("name the references of the asset, such as dataset_id", "/query")
    # Assets of earlier days have the version among their references, so those are looked for first.
    lines = await call.gateway.reads.list_assets(call.holder, platform_id=platform_id, refs=refs, before=None, limit=2)
    label = await version_ref_of(call, platform_id)
    if not lines and label in refs:
        identity = {name: value for name, value in refs.items() if name != label}
        if identity:
            lines = await call.gateway.reads.list_assets(
                call.holder, platform_id=platform_id, refs=identity, before=None, limit=2
            )
    if not lines:
        raise not_found("asset")
    if len(lines) > 1:
        raise Problem(
            409, "ambiguous", "more than one asset has these references", remedy="Name all references of the asset."
        )
    return lines[0]


# -- what is shown -------------------------------------------------------------------------------------------------


def shown_asset(row: Row) -> dict[str, Any]:
    return {
        "platform_id": row["platform_id"],
        "platform_refs": row["platform_refs"],
        "kind": row["kind"],
        "status": row["processing_status"],
        "review": row["approval_state"],
        "clearance": row["clearance"],
        "created_at": moment(row["created_at"]),
        "updated_at": moment(row["updated_at"]),
        "versions": [shown_version(version, row["current_revision"]) for version in row["versions"] or []],
    }


def shown_review(row: Row) -> dict[str, Any]:
    return {
        "platform_id": row["platform_id"],
        "platform_refs": row["platform_refs"],
        "kind": row["kind"],
        "revision": row["revision"],
        "version": row["version_label"],
        "content_hash": row["content_hash"],
        "review": row["review_state"],
        "clearance": row["clearance"],
        "submitted_by": row["created_by"],
        "created_at": moment(row["created_at"]),
        "decided_at": moment(row["decided_at"]),
        "reason": None if row["decision_reason"] is None else shown_text(row["decision_reason"]),
    }


def shown_platform(row: Row) -> dict[str, Any]:
    names = ("platform_id", "identity_refs", "optional_refs", "version_ref", "review")
    return {name: row[name] for name in names}


def shown_inputs(inputs: Any) -> dict[str, Any]:
    """Of each parameter: type, whether it is needed, its default and what it is."""
    names = ("type", "required", "default", "description", "enum")
    return {
        key: {name: facts[name] for name in names if facts.get(name) is not None}
        for key, facts in (inputs or {}).items()
        if isinstance(facts, dict)
    }


def nothing(reason: str, suggestion: str) -> dict[str, Any]:
    return {"found": False, "reason": reason, "suggestion": suggestion}

"""Orders of partners: place them, follow them, cancel and retry them, and see what was told about them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.responses import Response

from rmhdag.gateway.calls import Call
from rmhdag.gateway.database import Row
from rmhdag.gateway.ddh import GIVEN_IN_FORM, DataTypeNotOffered, translate
from rmhdag.gateway.ddh_forms import DataType
from rmhdag.gateway.forwarding import about_data, for_partners
from rmhdag.gateway.problems import Problem, invalid, not_found
from rmhdag.gateway.reads import STATES, Place
from rmhdag.gateway.service_urls import facts_of, services_of
from rmhdag.gateway.stac_links import with_links
from rmhdag.gateway.standing import standing
from rmhdag.models.partner_orders import (
    ENDED,
    moment,
    segment,
    shown_pointer,
    shown_status,
    shown_text,
    shown_value,
    state_of,
)
from rmhdag.models.refusals import MEANINGS, Refusal
from rmhdag.models.scopes import Scope

MOST_ORDERS = 100
# Orders of one batch that are forwarded at the same time.
AT_ONCE = 8
POLL_SECONDS = 2
KEY_HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
MOST_KEY_CHARACTERS = 128
# Of an estimate: how many orders others have placed stays hidden.
ESTIMATE = ("tasks", "input_bytes", "p50_seconds", "p95_seconds")
# The fields of a status that results have, too.
OF_RESULTS = "request_id status partial completed_at expires_at result error warnings services version".split()
# Only platforms' own callers say in whose name they act.
NOT_YOURS = ("submitted_by", "client_id", "namespace")
# What the API says of jobs and nodes, in the words of those who place orders.
WORDS_FOR_PARTNERS = {
    ("cancel", "refused"): ("the order has ended, or is ending", "Look at its status."),
    ("retry", "job_not_finished"): (
        "the order has not ended, so there is nothing to retry",
        "Wait until it has ended.",
    ),
    ("retry", "nothing_to_rerun"): ("no part of the order has failed", "Place a new order to do all of it again."),
}


async def submit(call: Call) -> Response:
    """Place an order. The answer comes at once; the status tells how it stands."""
    call.allow("dry_run")
    body = await call.body()
    if call.flag("dry_run"):
        check_dry_run(body)
        body["dry_run"] = True
    answer, is_repeat = await place(call, body, call.request.headers.get(KEY_HEADER))
    if "status" not in answer:
        return call.answer(answer)
    headers = {"Location": answer["links"]["status"], "Retry-After": str(POLL_SECONDS)}
    if is_repeat:
        headers[REPLAYED] = "true"
    wait = call.wait_seconds()
    if wait:
        status = await until_ended(call, answer["request_id"], wait)
        if status is not None and status["status"] in ENDED:
            return call.answer(status, headers={**headers, "Preference-Applied": f"wait={wait:.0f}"})
    if "respond-async" in call.request.headers.get("prefer", ""):
        headers["Preference-Applied"] = "respond-async"
    return call.answer(answer, 202, headers)


async def submit_batch(call: Call) -> Response:
    """Place 1 to 100 orders; each is answered by itself, with what it became or with its error."""
    call.allow()
    body = await call.body()
    orders = body.get("orders")
    if not isinstance(orders, list) or not 1 <= len(orders) <= MOST_ORDERS:
        raise invalid(f"`orders` is a list of 1 to {MOST_ORDERS} orders", "/orders")
    for name in body:
        if name != "orders":
            raise invalid(f"there is no field {name[:64]!r} here", "/" + shown_text(name[:64]))
    key = call.request.headers.get(KEY_HEADER)
    turns = asyncio.Semaphore(AT_ONCE)

    async def answer_one(index: int, order: Any) -> dict[str, Any]:
        async with turns:
            try:
                if not isinstance(order, dict):
                    raise invalid("an order is a JSON object", "")
                # One key for the batch is a key of its own for each order.
                answer, is_repeat = await place(call, order, None if key is None else f"{key}/{index}")
            except Problem as problem:
                return {"index": index, "status": "refused", "error": problem.body}
            return {"index": index, **answer, **({"replayed": True} if is_repeat else {})}

    answers = await asyncio.gather(*(answer_one(index, order) for index, order in enumerate(orders)))
    accepted = sum(answer.get("status") != "refused" for answer in answers)
    return call.answer({"accepted": accepted, "refused": len(answers) - accepted, "orders": answers})


async def place(
    call: Call, body: dict[str, Any], key: str | None, subscriber: dict[str, str] | None = None
) -> tuple[dict[str, Any], bool]:
    """Forward one order; what it became, and whether it was placed before. `subscriber` is told about it as OGC API –
    Processes says.

    An order without an id and without a key gets an id here, so that it can be forwarded twice and still be one order.
    """
    if is_ddh_form(body):
        return await place_form(call, body, key)
    order = dict(body)
    for name in NOT_YOURS:
        if name in order:
            raise invalid(f"`{name}` is not yours to give: orders are placed in the name of the key", f"/{name}")
    if "subscriber" in order:
        raise invalid("there is no field 'subscriber' here: give `callback_url`", "/subscriber")
    if subscriber is not None:
        order["subscriber"] = subscriber
    if key is not None and not 0 < len(key) <= MOST_KEY_CHARACTERS:
        raise Problem(400, "invalid_header", f"`{KEY_HEADER}` has 1 to {MOST_KEY_CHARACTERS} characters")
    check_dry_run(order)
    if call.holder.is_sandbox:
        order["dry_run"] = True
    if order.get("dry_run") is False:
        del order["dry_run"]
    is_dry = "dry_run" in order
    if not is_dry and key is None and order.get("idempotency_key") is None:
        order.setdefault("request_id", str(uuid.uuid4()))
    try:
        answer = await call.gateway.forwarder.send(
            call.holder,
            "POST",
            "/api/v1/submit",
            scopes=(Scope.SUBMIT,),
            body=order,
            headers={} if key is None else {KEY_HEADER: key},
            repeatable=True,
            own=call.own,
        )
    except Problem as problem:
        if problem.status == 503 and isinstance(order.get("request_id"), str):
            # The order may have been placed: with this id it can be followed, and sent again without being doubled.
            problem.body["request_id"] = order["request_id"]
        raise
    facts = answer.json()
    if is_dry:
        return {"dry_run": True, "plan": shown_plan(facts, call.own)}, False
    request_id = facts["request_id"]
    acceptance = {
        "request_id": request_id,
        "workflow_id": facts["workflow_id"],
        "submitted_at": moment(facts["submitted_at"]),
        "status": "accepted",
        "links": links_of(call, request_id),
    }
    return acceptance, answer.headers.get(REPLAYED.lower()) == "true"


async def place_form(call: Call, form: dict[str, Any], key: str | None) -> tuple[dict[str, Any], bool]:
    """The order form of DDH as an order; what is said about it names places of the form."""
    data_type, order = translated(form)
    try:
        with places_as_given(GIVEN_IN_FORM):
            answer, is_repeat = await place(call, order, key)
    except Problem as problem:
        if problem.body["code"] == "unknown_workflow":
            raise refused(DataTypeNotOffered(data_type)) from None
        raise
    for line in answer.get("plan", {}).get("problems", ()):
        line["pointer"] = given_pointer(line["pointer"], GIVEN_IN_FORM)
        if line["code"] == "unknown_workflow":
            refusal = DataTypeNotOffered(data_type)
            line |= {"code": refusal.code, "detail": str(refusal)}
    return answer, is_repeat


def check_dry_run(order: Mapping[str, Any]) -> None:
    """Before it is replaced by what the query or the key says."""
    if not isinstance(order.get("dry_run", False), bool):
        raise invalid("`dry_run` is true or false", "/dry_run")


@contextmanager
def places_as_given(places: Mapping[str, str]) -> Iterator[None]:
    """A refusal names places in an order; the caller has sent something else, of which the order was made."""
    try:
        yield
    except Problem as problem:
        for error in problem.body.get("errors", ()):
            error["pointer"] = given_pointer(error["pointer"], places)
        raise


def given_pointer(pointer: str, places: Mapping[str, str]) -> str:
    for ours, theirs in places.items():
        if pointer == ours or pointer.startswith(f"{ours}/"):
            return theirs + pointer.removeprefix(ours)
    return pointer


def shown_plan(facts: dict[str, Any], own: str) -> dict[str, Any]:
    """What an order would do: built key by key, for the API's answer also names jobs and assets."""
    problems = [
        {
            "code": line["refusal"],
            "pointer": shown_pointer(line["pointer"], own),
            "detail": for_partners(line["detail"], own),
            "error": about_data(line) or None,
        }
        for line in facts["problems"]
    ]
    return {
        "valid": facts["valid"],
        "outcome": facts["outcome"],
        "workflow_id": facts["workflow_id"],
        "input_params": shown_value(facts["input_params"]),
        "version": facts["version_label"],
        "waits_for_review": facts["waits_for_review"],
        "served_version": facts["current_version"],
        "estimate": None if facts["estimate"] is None else {name: facts["estimate"][name] for name in ESTIMATE},
        "problems": problems,
        "warnings": [{"code": line["code"], "message": shown_text(line["message"])} for line in facts["warnings"]],
    }


def is_ddh_form(body: dict[str, Any]) -> bool:
    """The order form of the Data Distribution Hub, which names no workflow."""
    return "dataset_id" in body and "workflow_id" not in body


def translated(form: dict[str, Any]) -> tuple[DataType, dict[str, Any]]:
    """What the form orders, and an order of ours; or a problem with all that is wrong with the form."""
    fields = {name: value for name, value in form.items() if name != "dry_run"}
    try:
        order = translate(fields)
    except Refusal as refusal:
        raise refused(refusal) from None
    body = order.body.model_dump(exclude_defaults=True)
    if order.previous_version is not None:
        body["previous_version"] = order.previous_version
    return order.data_type, {**body, **({"dry_run": form["dry_run"]} if "dry_run" in form else {})}


def refused(refusal: Refusal) -> Problem:
    errors = [{"pointer": place.pointer, "detail": place.detail} for place in refusal.places]
    return Problem(MEANINGS[refusal.kind].status, refusal.code, str(refusal), remedy=refusal.remedy, errors=errors)


async def status(call: Call) -> Response:
    """How an order stands."""
    call.allow()
    order = await until_ended(call, call.path["request_id"], call.wait_seconds())
    if order is None:
        raise not_found()
    return call.answer(order, headers={} if order["status"] in ENDED else {"Retry-After": str(POLL_SECONDS)})


async def results(call: Call) -> Response:
    """The result of an order with its files and links to its catalogue entries; null until the order is completed."""
    call.allow()
    order = await until_ended(call, call.path["request_id"], call.wait_seconds())
    if order is None:
        raise not_found()
    row = await find(call)
    lines = await call.gateway.reads.list_files(call.holder, row) if is_shown(row) else []
    services = order["services"] or {}
    links = [{"rel": name, "href": href} for name, href in links_of(call, order["request_id"]).items()]
    for rel, name in (("item", "stac_item"), ("collection", "stac_collection")):
        if services.get(name):
            links.append({"rel": rel, "href": services[name], "type": "application/json"})
    headers = {} if order["status"] in ENDED else {"Retry-After": str(POLL_SECONDS)}
    files = [shown_file(call, order["request_id"], line) for line in lines]
    order["result"] = with_links(order["result"], {file["sha256"]: file["href"] for file in files})
    return call.answer({**{name: order[name] for name in OF_RESULTS}, "files": files, "links": links}, headers=headers)


async def list_requests(call: Call) -> Response:
    """The orders of this client, newest first; references and labels narrow them down."""
    state = call.query("status")
    if state is not None and state not in STATES:
        raise invalid(f"status is one of {', '.join(STATES)}", "/query/status")
    lines = await call.gateway.reads.list_requests(
        call.holder,
        state=state,
        since=call.moment("since"),
        until=call.moment("until"),
        refs=call.references("status", "since", "until", "label", "limit", "cursor"),
        labels=call.labels(),
        before=call.cursor(),
        limit=call.limit() + 1,
    )
    return call.page("requests", lines, shown_line, lambda row: Place(row["submitted_at"], row["request_id"]))


async def cancel(call: Call) -> Response:
    """Cancel an order. What has not started never starts; what runs is stopped. May be repeated."""
    call.allow()
    row = await find(call)
    body = await call.body()
    if row["job_id"] is not None and await call.gateway.reads.shares_job(row):
        raise Problem(
            409,
            "order_shared",
            "another order waits for the same work",
            remedy="Ignore the result, or ask the operator of the platform to cancel it.",
        )
    reason = body.get("reason")
    await forward_to_job(call, row, "cancel", {} if reason is None else {"reason": reason})
    state = "cancelled" if row["job_status"] == "cancelled" else "cancelling"
    return call.answer({"request_id": row["request_id"], "status": state}, 202, locate(call, row))


async def retry(call: Call) -> Response:
    """Run the failed parts of an order again; what is done is kept."""
    call.allow()
    row = await find(call)
    key = call.request.headers.get(KEY_HEADER)
    headers = locate(call, row)
    # The order has moved on to the job that this key has made: the API would look at that job, and find nothing to do.
    if key is not None and row["retry_key"] == key:
        refuse_order_of_others(call, row)
        headers[REPLAYED] = "true"
    else:
        await forward_to_job(call, row, "retry", {}, key)
    return call.answer({"request_id": row["request_id"], "status": "accepted"}, 202, headers)


async def list_deliveries(call: Call) -> Response:
    """What was sent to the callback of this order, and what became of it."""
    call.allow()
    row = await find(call)
    if row["job_id"] is None:
        return call.answer({"deliveries": []})
    query = {"job_id": row["job_id"], "limit": 100}
    answer = await call.gateway.forwarder.send(call.holder, "GET", "/api/v1/callbacks", query=query)
    lines = [line for line in answer.json()["callbacks"] if line["request_id"] == row["platform_request_id"]]
    return call.answer({"deliveries": [shown_delivery(line) for line in lines]})


async def redeliver(call: Call) -> Response:
    """Send a callback again: the same id and body."""
    call.allow()
    row = await find(call)
    refuse_order_of_others(call, row)
    path = f"/api/v1/callbacks/{segment(call.path['delivery_id'])}"
    try:
        line = (await call.gateway.forwarder.send(call.holder, "GET", path)).json()
    except Problem as problem:
        raise not_found("delivery") if problem.status == 404 else problem from None
    if line["request_id"] != row["platform_request_id"]:
        raise not_found("delivery")
    answer = await call.gateway.forwarder.send(call.holder, "POST", f"{path}/redeliver", scopes=(Scope.OPERATE,))
    return call.answer(shown_delivery(answer.json()), 202)


# -- what they share -----------------------------------------------------------------------------------------------


async def find(call: Call) -> Row:
    sighting = await call.gateway.reads.find_request(call.holder, call.path["request_id"])
    if sighting is None:
        raise not_found()
    return sighting[0]


def refuse_order_of_others(call: Call, row: Row) -> None:
    """Reviewers see the orders of all clients; only operators change them."""
    if row["client_id"] != call.holder.client_id and not call.holder.may(Scope.OPS):
        raise Problem(
            403, "scope_missing", f"to change an order of another client needs a key with the scope `{Scope.OPS}`"
        )


async def until_ended(call: Call, request_id: str, wait_seconds: float) -> dict[str, Any] | None:
    """The status, as soon as it is final; else as it is when the wait is over."""
    deadline = time.monotonic() + wait_seconds
    pause = 0.1
    while True:
        sighting = await call.gateway.reads.find_request(call.holder, request_id)
        if sighting is None:
            return None
        row, percent = sighting
        if state_of(row) in ENDED or time.monotonic() + pause > deadline:
            return {
                **shown_status(row, percent),
                **standing(call, row),
                "labels": row["labels"],
                "services": services(call, row),
            }
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def is_shown(row: Row) -> bool:
    """Whether the content may be seen: what was deleted or unpublished since may not."""
    return state_of(row) == "completed" and not row["is_deleted"] and not row["is_unpublished"]


def services(call: Call, row: Row) -> dict[str, str | None] | None:
    """Addresses of what may be seen: of approved content, or of completed content that needs no approval."""
    templates = call.gateway.templates.get(row["kind"] or "", {})
    if not templates or not is_shown(row):
        return None
    return services_of(templates, facts_of(row, row["service_outputs"] or [], call.holder.namespace))


async def forward_to_job(call: Call, row: Row, verb: str, body: dict[str, Any], key: str | None = None) -> None:
    refuse_order_of_others(call, row)
    if row["job_id"] is None or row["job_status"] is None:
        raise Problem(409, "not_kept", "the details of this order are older than the platform keeps them")
    try:
        await call.gateway.forwarder.send(
            call.holder,
            "POST",
            f"/api/v1/jobs/{segment(row['job_id'])}/{verb}",
            scopes=(Scope.OPERATE,),
            body=body,
            headers={} if key is None else {KEY_HEADER: key},
            repeatable=key is not None,
            own=call.own,
        )
    except Problem as problem:
        if problem.status == 404:
            raise not_found() from None
        code = problem.body["code"]
        if (verb, code) not in WORDS_FOR_PARTNERS:
            raise
        detail, remedy = WORDS_FOR_PARTNERS[verb, code]
        raise Problem(problem.status, code, detail, remedy=remedy) from None


def locate(call: Call, row: Row) -> dict[str, str]:
    return {"Location": links_of(call, row["request_id"])["status"], "Retry-After": str(POLL_SECONDS)}


def links_of(call: Call, request_id: str) -> dict[str, str]:
    name = segment(request_id)
    return {
        "status": call.link(f"/platform/status/{name}"),
        "results": call.link(f"/platform/results/{name}"),
    }


def shown_line(row: Row) -> dict[str, Any]:
    state = state_of(row)
    return {
        "request_id": row["request_id"],
        "workflow_id": row["workflow_id"],
        "platform_id": row["platform_id"],
        "platform_refs": row["platform_refs"] or {},
        "labels": row["labels"],
        "version": row["version_label"],
        "status": state,
        "submitted_at": moment(row["submitted_at"]),
        "completed_at": moment(row["completed_at"]) if state in ENDED else None,
    }


def shown_file(call: Call, request_id: str, line: Row) -> dict[str, Any]:
    return {
        "name": line["path"].rpartition("/")[2],
        "href": call.link(f"/platform/results/{segment(request_id)}/files/{line['sha256']}"),
        "media_type": line["media_type"],
        "size_bytes": line["size_bytes"],
        "sha256": line["sha256"],
    }


def shown_delivery(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "delivery_id": line["callback_id"],
        "status": line["status"],
        "url": line["endpoint_url"],
        "attempts": line["attempts"],
        "created_at": moment(line["created_at"]),
        "last_attempt_at": moment(line["last_attempt_at"]),
        "next_attempt_at": moment(line["next_attempt_at"]),
        "last_status": line["last_status"],
    }

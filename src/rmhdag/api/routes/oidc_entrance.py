"""The way in through the organisation's own sign-in: to the issuer, and back with a code."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from rmhdag.api.browser_sessions import set_cookie
from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import note_refusal, refuse_unknown_host, session_cookie
from rmhdag.api.page_routes import PageRoute
from rmhdag.api.problems import Problem, not_found
from rmhdag.api.processor_time import in_turn
from rmhdag.api.sign_in_tickets import TICKET_SECONDS, SignInFailed, Ticket
from rmhdag.models.registry import KeyKind
from rmhdag.observability.logs import get_logger
from rmhdag.store import api_keys

router = APIRouter(include_in_schema=False, route_class=PageRoute)
log = get_logger(__name__)

BEGIN = "/login/oidc"
DONE = "/login/oidc/done"
# Pages of ours, and nothing that a browser takes for another host.
BACK = re.compile(r"/ui(?:[/?][^\\\s]{0,1500})?")


@router.get(BEGIN)
@in_turn
def sign_in(request: Request, api: ApiContext) -> Response:
    """Send the browser to the issuer."""
    if api.sign_in is None:
        raise not_found("sign-in of an organisation here", remedy="RMHDAG_OIDC_CLIENT_ID enables it.")
    refuse_unknown_host(request, api.settings.hosts)
    back = request.query_params.get("back", "")
    try:
        address, ticket = api.sign_in.begin(_redirect_uri(request, api), back if BACK.fullmatch(back) else "/ui")
    except SignInFailed as error:
        return _refuse(request, str(error))
    answer = RedirectResponse(address, status_code=303)
    # Lax: the browser comes back from another site.
    answer.set_cookie(
        _ticket_cookie(request),
        ticket.write(),
        max_age=TICKET_SECONDS,
        path=DONE,
        httponly=True,
        samesite="lax",
        secure=_is_secure(request, api),
    )
    return answer


@router.get(DONE)
@in_turn
def finish_sign_in(request: Request, api: ApiContext) -> Response:
    """Take the code that the issuer has sent, and open a session."""
    if api.sign_in is None:
        raise not_found("sign-in of an organisation here", remedy="RMHDAG_OIDC_CLIENT_ID enables it.")
    refuse_unknown_host(request, api.settings.hosts)
    query = request.query_params
    try:
        ticket = Ticket.read(request.cookies.get(_ticket_cookie(request), ""))
        if "code" not in query:
            raise SignInFailed(f"the issuer answers {query.get('error', 'nothing')[:100]}")
        holder = api.sign_in.finish(ticket, query.get("state", ""), query["code"], _redirect_uri(request, api))
        if holder.scopes.isdisjoint(api_keys.PEOPLE):
            raise SignInFailed("none of the person's roles is worth a scope")
    except SignInFailed as error:
        return _refuse(request, str(error))
    with api.connection() as conn:
        session = api_keys.create_key(
            conn,
            holder.name,
            holder.scopes,
            created_by="oidc",
            namespace=holder.namespace,
            days=api.sign_in.session_days,
            kind=KeyKind.SESSION,
        ).key
    answer = RedirectResponse(ticket.back, status_code=303)
    set_cookie(request, answer, session)
    answer.delete_cookie(_ticket_cookie(request), path=DONE)
    return answer


def _refuse(request: Request, why: str) -> Response:
    """The person sees the sign-in page with a sentence; the log has the reason."""
    log.warning("sign_in_failed", why=why)
    note_refusal(Problem(401, "sign_in_failed", why), request)
    return RedirectResponse("/ui?refused=sign_in_failed", status_code=303)


def _redirect_uri(request: Request, api: Api) -> str:
    origin = api.settings.public_url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    return origin.rstrip("/") + DONE


def _is_secure(request: Request, api: Api) -> bool:
    return _redirect_uri(request, api).startswith("https:")


def _ticket_cookie(request: Request) -> str:
    return session_cookie(request).replace("session", "sign_in")

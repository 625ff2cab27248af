"""The web interface: one page for all of its addresses, and the files of its bundle. Neither holds data."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from rmhdag.api.context import get_api
from rmhdag.api.page_routes import PageRoute
from rmhdag.api.problems import not_found
from rmhdag.ui.assets import Asset, read_bundle
from rmhdag.ui.pages import start_page, unbuilt_page

THEME_COOKIE = "rmhdag_theme"
# A new build has new names.
FOREVER = "public, max-age=31536000, immutable"


router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/ui/static/{name}")
async def ui_file(name: str, request: Request) -> Response:
    """A file of the bundle."""
    bundle = read_bundle()
    asset = None if bundle is None else bundle.find(name, request.headers.get("accept-encoding", ""))
    content = None if asset is None else await run_in_threadpool(_read, asset)
    if asset is None or content is None:
        raise not_found("file of this name in the web interface", remedy="Reload the page: a newer build has others.")
    headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
    if asset.encoding is not None:
        headers["Content-Encoding"] = asset.encoding
    return Response(content, media_type=asset.media_type, headers=headers)


def _read(asset: Asset) -> bytes | None:
    try:
        return asset.path.read_bytes()
    except OSError:
        return None


@router.get("/ui")
@router.get("/ui/{path:path}")
async def ui_page(request: Request) -> Response:
    """The page that loads the interface, whatever the address."""
    bundle = read_bundle()
    if bundle is None:
        return HTMLResponse(unbuilt_page(), status_code=503, headers={"Retry-After": "10"})
    theme = request.cookies.get(THEME_COOKIE, "system")
    return HTMLResponse(start_page(bundle, theme, get_api(request).settings.environment))

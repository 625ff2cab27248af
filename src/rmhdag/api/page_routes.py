"""Routes that a browser visits itself."""

from __future__ import annotations

from fastapi.routing import APIRoute


class PageRoute(APIRoute):
    """Its query is not checked: a page reads filters from it, and issuers add parameters of their own."""

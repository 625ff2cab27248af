"""The one page that loads the interface, and the one that stands in for it where it was not built."""

from __future__ import annotations

from html import escape

from rmhdag.ui.assets import Bundle

THEMES = frozenset({"system", "light", "dark", "contrast"})

_PAGE = """\
<!doctype html>
<html lang="en" data-theme="{theme}" data-environment="{environment}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rmhdag</title>
<link rel="icon" type="image/svg+xml" href="/ui/static/{icon}">
<link rel="stylesheet" href="/ui/static/{style}">
{preload}<script type="module" src="/ui/static/{script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The web interface needs JavaScript. Everything it shows is also at /api/v1 and in the command line.</noscript>
</body>
</html>
"""
_UNBUILT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rmhdag: the web interface is not built</title>
</head>
<body>
<h1>The web interface is not built</h1>
<p>Everything else works: the HTTP API under <a href="/api/v1/openapi.json">/api/v1</a>, the command line and the Python
client.</p>
<p>To build it, run this in the repository, on a machine that reaches an npm registry, then reload this page:</p>
<pre>scripts/build-ui</pre>
<p>It needs Node 20 or newer, which it installs from PyPI if there is none. If it fails, it says why. A wheel of rmhdag
contains the interface.</p>
</body>
</html>
"""


def start_page(bundle: Bundle, theme: str, environment: str = "") -> str:
    """The theme is in the page, so that the wrong one does not flash up before the script runs.

    So is the name of the environment: a person has to see it before signing in, and it costs no request.
    """
    links = [f'<link rel="modulepreload" href="/ui/static/{escape(name)}">\n' for name in bundle.preload]
    return _PAGE.format(
        theme=theme if theme in THEMES else "system",
        environment=escape(environment),
        icon=escape(bundle.icon),
        style=escape(bundle.style),
        preload="".join(links),
        script=escape(bundle.script),
    )


def unbuilt_page() -> str:
    return _UNBUILT

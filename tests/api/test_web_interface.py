"""The page and the files of the web interface, as browsers get them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pydantic import ValidationError

from rmhdag.cli.run_api import api_settings
from rmhdag.cli.settings import Settings
from rmhdag.ui import assets
from rmhdag.ui.pages import start_page
from tests.api.serving import Served, served
from tests.api.test_foundation import problem

MANIFEST = b"""
{"script": "app-1.js", "style": "style-1.css", "icon": "icon-1.svg", "preload": [], "files": {"app-1.js": {}}}
"""


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of a few bytes in the place of the real one."""
    monkeypatch.setattr(assets, "STATIC", tmp_path)
    monkeypatch.setattr(assets, "_last", None)
    (tmp_path / "manifest.json").write_bytes(MANIFEST)
    (tmp_path / "app-1.js").write_bytes(b"let x")
    (tmp_path / "app-1.js.gz").write_bytes(gzip.compress(b"let x"))
    return tmp_path


def test_one_page_for_all_addresses_without_data_or_other_hosts(api: Served, bundle: Path) -> None:
    browser = api.anonymous(cookies={"rmhdag_theme": "dark"})
    pages = [browser.get(path) for path in ("/ui", "/ui/jobs?status=x&status=y", "/ui/jobs/a%2Fb")]
    assert {page.status_code for page in pages} == {200}
    assert len({page.text for page in pages}) == 1
    page = pages[0]
    assert 'data-theme="dark"' in page.text
    assert "//" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'; object-src 'none'")
    assert page.headers["cache-control"] == "no-store"


def test_files_are_compressed_and_kept_for_ever(api: Served, bundle: Path) -> None:
    answer = api.anonymous(headers={"Accept-Encoding": "gzip"}).get("/ui/static/app-1.js")
    assert (answer.text, answer.headers["content-encoding"]) == ("let x", "gzip")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"].startswith("text/javascript")
    plain = api.anonymous(headers={"Accept-Encoding": "identity"}).get("/ui/static/app-1.js")
    assert (plain.text, plain.headers.get("content-encoding")) == ("let x", None)


@pytest.mark.parametrize("name", ["manifest.json", "..%2Fassets.py", "app-2.js", "app-1.js.gz"])
def test_nothing_but_the_bundle_is_served(api: Served, bundle: Path, name: str) -> None:
    assert api.anonymous().get(f"/ui/static/{name}").status_code in (200, 404)
    answer = api.anonymous().get(f"/ui/static/{name}")
    if "%2F" not in name:
        problem(answer, 404, "not_found")
    assert "import" not in answer.text


def test_without_a_build_the_page_says_how_to_make_one(api: Served, bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    page = api.anonymous().get("/ui")
    assert page.status_code == 503
    assert "scripts/build-ui" in page.text


def test_a_foreign_theme_is_not_written_into_the_page() -> None:
    made = assets.Bundle("a.js", "b.css", "c.svg", (), frozenset())
    assert "<script>alert" not in start_page(made, '"><script>alert(1)</script>')


def test_the_environment_is_in_the_page_as_text(migrated_database: str, bundle: Path) -> None:
    with served(migrated_database, environment="prod-eu") as api:
        assert 'data-environment="prod-eu"' in api.anonymous().get("/ui").text
    made = assets.Bundle("a.js", "b.css", "c.svg", (), frozenset())
    assert "<b>" not in start_page(made, "system", '"><b>')


def test_development_mode_names_itself_unless_a_name_is_set() -> None:
    names = [
        api_settings("", Settings(development=development, environment=environment)).environment
        for development, environment in ((False, ""), (True, ""), (True, "laptop"), (False, "production"))
    ]
    assert names == ["", "development", "laptop", "production"]
    with pytest.raises(ValidationError):
        Settings(environment="<b>")

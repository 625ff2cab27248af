"""A STAC item in a result leads to the files that a partner can fetch, and to nothing else."""

from __future__ import annotations

from typing import Any

from rmhdag.gateway.stac_links import with_links
from rmhdag.models.partner_orders import shown_value

SHA = "1dc4320394de1480ee84468832a4224f7a7e6b41e49162427252d145794ae3e5"
EXTENSION = "https://stac-extensions.github.io/file/v2.1.0/schema.json"


def item() -> dict[str, Any]:
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [EXTENSION],
        "assets": {
            "data": {"href": "https://account.blob.example.org/cogs/a.tif", "file:checksum": f"1220{SHA}"},
            "thumbnail": {"href": "/srv/storage/a.webp", "file:checksum": "1220" + "0" * 64},
            "other": {"href": "/srv/storage/a.json"},
        },
        "links": [{"rel": "collection", "href": "../collection.json"}, {"rel": "license", "href": EXTENSION}],
    }


def test_assets_lead_to_files_that_can_be_fetched() -> None:
    shown = with_links(shown_value({"item": item(), "items": [item()]}), {SHA: "/platform/results/r/files/x"})
    for one in (shown["item"], shown["items"][0]):
        assert one["assets"] == {"data": {"href": "/platform/results/r/files/x", "file:checksum": f"1220{SHA}"}}
        assert one["stac_extensions"] == [EXTENSION]
        assert [link["rel"] for link in one["links"]] == ["license"]


def test_what_is_no_item_stays_as_it_is() -> None:
    for value in (None, 7, {"type": "Feature", "assets": {}}, {"assets": {"a": 1}}, [{"x": "y"}]):
        assert with_links(value, {SHA: "/x"}) == value


def test_places_of_storage_stay_hidden() -> None:
    assert shown_value("https://account.blob.example.org/x https://stac-extensions.github.io.evil.example/x") == "… …"


def test_an_item_whose_links_are_no_list_has_none() -> None:
    for links in (None, 5, "x", {"rel": "self"}):
        assert with_links({**item(), "links": links}, {})["links"] == []

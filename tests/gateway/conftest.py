from collections.abc import Iterator

import pytest

from rmhdag.assets.identity import Platforms
from rmhdag.services.platforms import seed_platforms
from tests.api.serving import ServedHere
from tests.api.serving import served as served_api
from tests.engine.definitions import task, workflow
from tests.gateway.serving import Served, served_gateway
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform

SERVICE_URLS = (
    '{"raster": {"viewer": "https://tiles.example.org/map?url={url}",'
    ' "stac_item": "https://stac.example.org/collections/{collection_id}/items/{item_id}"}}'
)


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served_api(migrated_database) as running:
        yield running


@pytest.fixture
def gateway(migrated_database: str, api: ServedHere) -> Iterator[Served]:
    with served_gateway(migrated_database, api.url, service_urls=SERVICE_URLS) as running:
        yield running


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    seed_platforms(made.conn, Platforms())
    made.register(raster_workflow())
    yield made
    made.close()


@pytest.fixture
def chain_of_four(platform: Platform) -> str:
    definition = workflow(a=task("b"), b=task("c"), c=task("d"), d=task())
    platform.register(definition)
    return definition.workflow_id

"""A small vector layer: gauging stations along rivers, as GeoJSON, from a seed and without any library."""

from __future__ import annotations

import json
import math
from random import Random

COUNT = 240
RIVERS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir")


def stations(seed: int, count: int = COUNT) -> bytes:
    """The same seed gives the same bytes."""
    random = Random(seed)
    features = []
    for number in range(count):
        river = number % len(RIVERS)
        way = number // len(RIVERS) / (count / len(RIVERS))
        longitude = 7.0 + 2.0 * way + 0.02 * random.random()
        latitude = 46.2 + 0.25 * river + 0.08 * math.sin(6 * way + river) + 0.01 * random.random()
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [round(longitude, 6), round(latitude, 6)]},
                "properties": {
                    "id": number + 1,
                    "name": f"{RIVERS[river]} {number // len(RIVERS) + 1}",
                    "river": RIVERS[river],
                    "opened": f"{random.randint(1960, 2020)}-{random.randint(1, 12):02}-01",
                    "level_m": round(random.gauss(2.4, 0.6), 2),
                },
            }
        )
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()

"""A workflow of the shape of Montage, which makes mosaics of the sky: thousands of nodes, joins of thousands of edges.

Tiles are projected, neighbours are compared, one model is fitted to all differences, each tile is corrected by it, and
all are put together. The names are as long as those of real runs.
"""

from __future__ import annotations

from collections.abc import Iterator

NAME_CHARACTERS = 60
_REGION = "2mass_j_band_mosaic_of_the_orion_nebula_and_its_surroundings_in_the_winter_sky_by_night_and_by_day_and"


def montage(tiles: int, differences: int, *, queue: str, name_characters: int = NAME_CHARACTERS) -> str:
    """YAML text of `2 × tiles + differences + 6` nodes."""
    return "\n".join(_lines(tiles, differences, queue, name_characters)) + "\n"


def montage_of(nodes: int, *, queue: str, name_characters: int = NAME_CHARACTERS) -> str:
    """With that many nodes, and five neighbours per tile as in real mosaics."""
    tiles = (nodes - 6) // 7
    return montage(tiles, nodes - 6 - 2 * tiles, queue=queue, name_characters=name_characters)


def _lines(tiles: int, differences: int, queue: str, name_characters: int) -> Iterator[str]:
    def name(step: str, number: int = 0) -> str:
        return f"{step}_ID{number:07d}_{_REGION}"[:name_characters]

    def node(node_name: str, needed: list[str], **params: str) -> Iterator[str]:
        yield f"  {node_name}:"
        yield "    handler: echo"
        if needed:
            yield "    depends_on:"
            yield from (f"      - {other}" for other in needed)
        if params:
            yield "    params:"
            yield from (f"      {key}: {value}" for key, value in params.items())

    projected = [name("mProject", number) for number in range(tiles)]
    fitted = [name("mDiffFit", number) for number in range(differences)]
    corrected = [name("mBackground", number) for number in range(tiles)]
    yield "workflow_id: montage"
    yield "name: Mosaic of the sky"
    yield "inputs:"
    yield "  region: {type: string, default: M42}"
    yield f"defaults: {{queue: {queue}}}"
    yield f'outputs: {{picture: "{{{{ nodes.{name("mViewer")}.output.echoed_params.picture }}}}"}}'
    yield "nodes:"
    for number, image in enumerate(projected):
        yield from node(image, [], region='"{{ inputs.region }}"', tile=str(number))
    for number, image in enumerate(fitted):
        first = projected[number % tiles]
        second = projected[(number + 1 + number // tiles) % tiles]
        read = '"{{{{ nodes.{}.output.echoed_params.tile }}}}"'
        yield from node(image, [first, second], first=read.format(first), second=read.format(second))
    yield from node(name("mConcatFit"), fitted)
    yield from node(name("mBgModel"), [name("mConcatFit")])
    for number, image in enumerate(corrected):
        tile = f'"tile {{{{ nodes.{projected[number]}.output.echoed_params.tile }}}} of {tiles}"'
        yield from node(image, [projected[number], name("mBgModel")], tile=tile)
    yield from node(name("mImgtbl"), corrected)
    yield from node(name("mAdd"), [name("mImgtbl")])
    yield from node(name("mShrink"), [name("mAdd")])
    yield from node(name("mViewer"), [name("mShrink")], picture='"{{ inputs.region }}.png"')

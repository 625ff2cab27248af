"""The space between two rows of boxes: at which height each line turns, so that no two lines overlap."""

from __future__ import annotations

from typing import NamedTuple


class Net(NamedTuple):
    """All lines that leave one source; they share the stem and the turn."""

    source: int
    targets: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        columns = (self.source, *self.targets)
        return min(columns), max(columns)


def assign_tracks(nets: list[Net]) -> dict[int, int]:
    """Source column → track, 0 being the highest; straight nets need none.

    A net that comes down in the column where another one leaves must turn below it. If such rules form a cycle, the
    later net yields and the picture shows a crossing.
    """
    turning = [net for net in nets if net.span[0] != net.span[1]]
    by_source = {net.source: net for net in turning}
    tracks: dict[int, int] = {}
    nets_by_track: list[list[Net]] = []
    visiting: set[int] = set()

    def settle(net: Net) -> None:
        if net.source in tracks or net.source in visiting:
            return
        visiting.add(net.source)
        lowest = 0
        for column in net.targets:
            other = by_source.get(column)
            if other and column != net.source:
                settle(other)
                lowest = max(lowest, tracks.get(column, -1) + 1)
        track = lowest
        while track < len(nets_by_track) and any(overlap(net, other) for other in nets_by_track[track]):
            track += 1
        while len(nets_by_track) <= track:
            nets_by_track.append([])
        nets_by_track[track].append(net)
        tracks[net.source] = track

    for net in turning:
        settle(net)
    return tracks


def overlap(net: Net, other: Net) -> bool:
    """Two nets may touch on one track only where both come down on the same target."""
    (left, right), (start, end) = net.span, other.span
    if left < end and start < right:
        return True
    meeting = {left, right} & {start, end}
    return not meeting <= set(net.targets) & set(other.targets)

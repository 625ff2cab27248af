/** The children of a fan-out at their places on Earth: squares that fill in while they are processed. */

import { createEmpty, isEmpty } from "ol/extent";
import Feature from "ol/Feature";
import MultiPolygon from "ol/geom/MultiPolygon";
import VectorLayer from "ol/layer/Vector";
import { transform } from "ol/proj";
import VectorSource from "ol/source/Vector";
import Fill from "ol/style/Fill";
import Stroke from "ol/style/Stroke";
import Style from "ol/style/Style";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "~/widgets";
import { type BaseMap, faded, type Palette } from "./base-map";
import { extentOfBox } from "./boxes";
import { MapFrame } from "./map-frame";
import { readCrs } from "./projections";
import { outlineOf, type TileGrid, type TileRange } from "./tile-places";
import type { MapTone, Tile } from "./types";

export interface TileMapProps {
  /** By index; a tile whose tone changes is painted anew, and nothing is laid out again. Tiles without a place are
   * counted below the map. */
  tiles: readonly Tile[];
  /** For tiles of a grid: where they lie follows from their ranges. */
  grid?: TileGrid | undefined;
  ranges?: ReadonlyMap<number, TileRange> | undefined;
  label: string;
  chosen?: number | undefined;
  onChoose?: (index: number | undefined) => void;
  height?: string;
}

type Styles = Record<MapTone | "chosen", Style>;

function stylesOf(palette: Palette): Styles {
  const style = (tone: MapTone) => {
    const { line } = palette.tones[tone];
    const strength = { good: 0.75, bad: 0.85, active: 0.55, waiting: 0.12, warning: 0.6, off: 0.2 }[tone];
    return new Style({
      fill: new Fill({ color: faded(line, strength) }),
      stroke: new Stroke({ color: tone === "bad" ? line : faded(palette.halo, 0.7), width: tone === "bad" ? 2 : 0.75 }),
      zIndex: tone === "bad" ? 2 : 1,
    });
  };
  return {
    good: style("good"),
    bad: style("bad"),
    active: style("active"),
    waiting: style("waiting"),
    warning: style("warning"),
    off: style("off"),
    chosen: new Style({ stroke: new Stroke({ color: palette.focus, width: 3 }), zIndex: 3 }),
  };
}

function ringsOf(
  tile: Tile,
  grid: TileGrid | undefined,
  crs: string | undefined,
  ranges: TileMapProps["ranges"],
): number[][][] {
  if (tile.ring) return [tile.ring.map((point) => [...point])];
  if (tile.bbox) {
    const [west, south, east, north] = extentOfBox(tile.bbox);
    return [
      [
        [west, south],
        [east, south],
        [east, north],
        [west, north],
        [west, south],
      ],
    ];
  }
  const range = ranges?.get(tile.index);
  if (!grid || !crs || !range) return [];
  return outlineOf(grid, range).map((ring) => unwrapped(ring.map((point) => transform(point, crs, "EPSG:4326"))));
}

/** With continuous longitudes, so that a tile over the antimeridian is small. */
function unwrapped(ring: number[][]): number[][] {
  let before = ring[0]?.[0] ?? 0;
  return ring.map(([x = 0, y = 0]) => {
    before = x - 360 * Math.round((x - before) / 360);
    return [before, y];
  });
}

export default function TileMap({ tiles, grid, ranges, label, chosen, onChoose, height }: TileMapProps): JSX.Element {
  const base = useRef<BaseMap | undefined>(undefined);
  const source = useRef(new VectorSource({ wrapX: true }));
  const drawn = useRef(new Map<number, { feature: Feature; tone: MapTone }>());
  const chosenNow = useRef<number | undefined>(undefined);
  const [pointed, setPointed] = useState<number>();
  // Counted after they were drawn: while they are not, none has a place yet.
  const [unplaced, setUnplaced] = useState(0);
  chosenNow.current = chosen ?? pointed;
  const act = useRef(onChoose);
  act.current = onChoose;

  const fit = () => {
    const extent = source.current.getExtent() ?? createEmpty();
    if (base.current && !isEmpty(extent))
      base.current.map.getView().fit(extent, { padding: [24, 24, 24, 24], maxZoom: 16 });
  };

  useEffect(() => {
    const crs = grid ? readCrs(null, grid.crs) : undefined;
    const added: Feature[] = [];
    for (const tile of tiles) {
      const before = drawn.current.get(tile.index);
      if (before) {
        if (before.tone !== tile.tone) {
          before.tone = tile.tone;
          before.feature.set("tone", tile.tone);
        }
        continue;
      }
      const rings = ringsOf(tile, grid, crs, ranges);
      if (rings.length === 0) continue;
      const geometry = new MultiPolygon(rings.map((ring) => [ring]));
      const feature = new Feature({ geometry, tone: tile.tone, index: tile.index });
      added.push(feature);
      drawn.current.set(tile.index, { feature, tone: tile.tone });
    }
    if (added.length > 0) {
      const isFirst = source.current.getFeatures().length === 0;
      source.current.addFeatures(added);
      if (isFirst) fit();
    }
    setUnplaced(tiles.filter((one) => !drawn.current.has(one.index)).length);
  }, [tiles, grid, ranges]);
  // the layer reads what is chosen by itself
  useEffect(() => source.current.changed(), [chosen, pointed]);

  const ready = (made: BaseMap) => {
    base.current = made;
    let styles = stylesOf(made.palette());
    const layer = new VectorLayer({
      source: source.current,
      style: (feature) => {
        const own = styles[feature.get("tone") as MapTone];
        return feature.get("index") === chosenNow.current ? [own, styles.chosen] : own;
      },
    });
    made.map.addLayer(layer);
    made.onPalette((palette) => {
      styles = stylesOf(palette);
      layer.changed();
    });
    const at = (pixel: number[]): number | undefined =>
      made.map.forEachFeatureAtPixel(pixel, (one) => one.get("index") as number, {
        layerFilter: (one) => one === layer,
      });
    made.map.on("pointermove", (event) => {
      if (!event.dragging) setPointed(at(event.pixel));
    });
    made.map.on("singleclick", (event) => act.current?.(at(event.pixel)));
    fit();
    return undefined;
  };
  const tile = tiles.find((one) => one.index === (chosen ?? pointed));
  const counts = new Map<string, { count: number; tone: MapTone }>();
  for (const one of tiles) counts.set(one.state, { count: (counts.get(one.state)?.count ?? 0) + 1, tone: one.tone });
  return (
    <MapFrame
      label={label}
      onReady={ready}
      height={height}
      tools={
        <>
          <Button icon="map" onClick={fit}>
            Fit
          </Button>
          <span class="map-hover" aria-live="polite">
            {tile ? (
              <>
                <strong>{tile.label ?? `Tile ${tile.index}`}</strong>{" "}
                <span class={`map-state tone-${tile.tone}`}>{tile.state}</span>
              </>
            ) : null}
          </span>
        </>
      }
    >
      <ul class="map-legend" aria-label="Tiles by state">
        {[...counts].map(([state, { count, tone }]) => (
          <li key={state}>
            <span class={`map-swatch map-swatch-tile tone-${tone}`} />
            {count} {state}
          </li>
        ))}
        {unplaced > 0 ? <li class="faint">{unplaced} without a known place</li> : null}
      </ul>
    </MapFrame>
  );
}

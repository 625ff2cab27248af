/** The map under everything: land, borders and a grid without any server, in the colours of the theme. */

import { defaults as defaultControls, ScaleLine } from "ol/control";
import Feature from "ol/Feature";
import TopoJSON from "ol/format/TopoJSON";
import MultiPolygon from "ol/geom/MultiPolygon";
import type Point from "ol/geom/Point";
import Polygon from "ol/geom/Polygon";
import { defaults as defaultInteractions } from "ol/interaction";
import Graticule from "ol/layer/Graticule";
import VectorLayer from "ol/layer/Vector";
import OlMap from "ol/Map";
import VectorSource from "ol/source/Vector";
import CircleStyle from "ol/style/Circle";
import Fill from "ol/style/Fill";
import Stroke from "ol/style/Stroke";
import Style from "ol/style/Style";
import Text from "ol/style/Text";
import View from "ol/View";
import type { MapTone } from "./types";

/** Above this zoom the finer coast is fetched. */
const FINE_ZOOM = 4.2;
export const WORLD = [-180, -90, 180, 90];

export interface Palette {
  land: string;
  coast: string;
  grid: string;
  text: string;
  halo: string;
  focus: string;
  tones: Record<MapTone, { line: string; fill: string }>;
}

/** A token of the style sheets as the canvas understands it. */
function colour(probe: HTMLElement, token: string): string {
  probe.style.color = `var(${token})`;
  return getComputedStyle(probe).color;
}

export function faded(rgb: string, alpha: number): string {
  const numbers = rgb.match(/[\d.]+/g)?.slice(0, 3) ?? ["0", "0", "0"];
  return `rgba(${numbers.join(",")},${alpha})`;
}

export function readPalette(target: HTMLElement): Palette {
  const probe = document.createElement("span");
  target.append(probe);
  const tone = (name: string) => {
    const line = colour(probe, `--${name}`);
    return { line, fill: faded(line, 0.28) };
  };
  const palette: Palette = {
    land: colour(probe, "--map-land"),
    coast: colour(probe, "--map-coast"),
    grid: colour(probe, "--map-grid"),
    text: colour(probe, "--text-soft"),
    halo: colour(probe, "--surface"),
    focus: colour(probe, "--focus"),
    tones: {
      good: tone("good"),
      bad: tone("bad"),
      active: tone("active"),
      waiting: tone("waiting"),
      warning: tone("warning"),
      off: tone("off"),
    },
  };
  probe.remove();
  return palette;
}

/** Called at once and whenever the theme changes; the function that comes back ends it. */
export function onTheme(target: HTMLElement, apply: (palette: Palette) => void): () => void {
  const run = () => apply(readPalette(target));
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const watcher = new MutationObserver(run);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  media.addEventListener("change", run);
  run();
  return () => {
    watcher.disconnect();
    media.removeEventListener("change", run);
  };
}

export interface BaseMap {
  map: OlMap;
  palette: () => Palette;
  /** Hear of the colours, now and when they change. */
  onPalette: (apply: (palette: Palette) => void) => void;
  end: () => void;
}

/** With continuous longitudes, and closed along the pole that it goes around: the atlas jumps from 180 to -180. */
function unwrapRing(ring: number[][]): number[][] {
  let before = ring[0]?.[0] ?? 0;
  const points = ring.map(([x = 0, y = 0]) => {
    before = x - 360 * Math.round((x - before) / 360);
    return [before, y];
  });
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || Math.abs((last[0] ?? 0) - (first[0] ?? 0)) < 180) return points;
  const pole = points.reduce((sum, [, y = 0]) => sum + y, 0) < 0 ? -90 : 90;
  return [...points, [last[0] ?? 0, pole], [first[0] ?? 0, pole], first];
}

const decoded = new Map<boolean, Promise<number[][][][]>>();

/** Decoded once: the reader changes the topology that it is given. */
function polygonsOfLand(fine: boolean): Promise<number[][][][]> {
  const known = decoded.get(fine) ?? decodeLand(fine);
  decoded.set(fine, known);
  return known;
}

async function decodeLand(fine: boolean): Promise<number[][][][]> {
  const data = fine ? await import("world-atlas/land-50m.json") : await import("world-atlas/countries-110m.json");
  const topology = (data as { default?: unknown }).default ?? data;
  const format = new TopoJSON({ layers: [fine ? "land" : "countries"] });
  return (format.readFeatures(topology as object) as Feature[]).flatMap((feature) => {
    const geometry = feature.getGeometry();
    if (geometry instanceof Polygon) return [geometry.getCoordinates().map(unwrapRing)];
    return geometry instanceof MultiPolygon ? geometry.getCoordinates().map((rings) => rings.map(unwrapRing)) : [];
  });
}

/** Projections of a part of the Earth tear what is far from it: only land around the middle is drawn in them. */
function isNear(rings: number[][][], [longitude, latitude]: readonly [number, number]): boolean {
  return (rings[0] ?? []).every(([x = 0, y = 0]) => {
    const turn = Math.abs(((((x - longitude + 180) % 360) + 360) % 360) - 180);
    return Math.abs(latitude) > 60 ? y * Math.sign(latitude) > 20 : turn < 60 && Math.abs(y - latitude) < 60;
  });
}

async function readLand(fine: boolean, projection: string, around?: readonly [number, number]): Promise<Feature[]> {
  const polygons = await polygonsOfLand(fine);
  const near = around ? polygons.filter((rings) => isNear(rings, around)) : polygons;
  return near.map((rings) => {
    const shape = new Polygon(rings);
    return new Feature(projection === "EPSG:4326" ? shape : shape.transform("EPSG:4326", projection));
  });
}

interface BaseOptions {
  projection?: string | undefined;
  wheel?: boolean;
  /** The middle of a projection of a part of the Earth, in degrees. */
  around?: readonly [number, number] | undefined;
}

/** A map in degrees, which shows the poles; `EPSG:3857` for looking closely, where a degree is as long as it is wide. */
export function makeBaseMap(
  target: HTMLElement,
  { projection = "EPSG:4326", wheel = true, around }: BaseOptions = {},
): BaseMap {
  let palette = readPalette(target);
  const listeners = new Set<(palette: Palette) => void>();
  const coarse = new VectorSource({ wrapX: !around });
  const fine = new VectorSource({ wrapX: !around });
  const landStyle = new Style();
  const land = (source: VectorSource, zooms: { minZoom?: number; maxZoom?: number }) =>
    new VectorLayer({ source, style: landStyle, updateWhileInteracting: true, ...zooms });
  const graticule = new Graticule({
    showLabels: true,
    wrapX: false,
    strokeStyle: new Stroke({ color: palette.grid, width: 1 }),
    intervals: [90, 45, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01],
    targetSize: 120,
    latLabelPosition: 0,
    latLabelStyle: label(palette, "start"),
    lonLabelStyle: label(palette, "center"),
  });
  const isPlain = projection === "EPSG:4326";
  const map = new OlMap({
    target,
    layers: [land(coarse, { maxZoom: FINE_ZOOM }), land(fine, { minZoom: FINE_ZOOM }), ...(around ? [] : [graticule])],
    controls: defaultControls({ attribution: false, rotate: false, zoom: true }).extend([
      new ScaleLine({ minWidth: 64 }),
    ]),
    interactions: defaultInteractions({ altShiftDragRotate: false, pinchRotate: false, mouseWheelZoom: wheel }),
    view: new View({
      projection,
      center: isPlain ? [10, 25] : [1e6, 3e6],
      zoom: isPlain ? 1 : 2,
      minZoom: 0,
      maxZoom: 24,
      enableRotation: false,
      multiWorld: true,
    }),
  });
  if (isPlain)
    map.getView().fit([-180, -58, 180, 78], { size: [target.clientWidth || 640, target.clientHeight || 320] });
  void readLand(false, projection, around).then((features) => coarse.addFeatures(features));
  let asked = false;
  const refine = () => {
    if (asked || (map.getView().getZoom() ?? 0) < FINE_ZOOM) return;
    asked = true;
    void readLand(true, projection, around).then((features) => fine.addFeatures(features));
  };
  map.on("moveend", refine);
  const endTheme = onTheme(target, (next) => {
    palette = next;
    landStyle.setFill(new Fill({ color: next.land }));
    landStyle.setStroke(new Stroke({ color: next.coast, width: 0.8 }));
    coarse.changed();
    fine.changed();
    for (const listener of listeners) listener(next);
  });
  const resizing = new ResizeObserver(() => map.updateSize());
  resizing.observe(target);
  return {
    map,
    palette: () => palette,
    onPalette: (apply) => {
      listeners.add(apply);
      apply(palette);
    },
    end: () => {
      endTheme();
      resizing.disconnect();
      map.setTarget();
      map.dispose();
    },
  };
}

function label(palette: Palette, textAlign: CanvasTextAlign): Text {
  return new Text({
    font: "11px system-ui, sans-serif",
    fill: new Fill({ color: palette.text }),
    stroke: new Stroke({ color: palette.halo, width: 2 }),
    textBaseline: "bottom",
    textAlign,
  });
}

const SMALL_PIXELS = 12;

/** A place that is too small to be seen from here, as a dot. */
export function dotStyle(palette: Palette, tone: MapTone, chosen: boolean, middle: Point): Style {
  const { line } = palette.tones[tone];
  return new Style({
    geometry: middle,
    image: new CircleStyle({
      radius: chosen ? 8 : 6,
      fill: new Fill({ color: line }),
      stroke: new Stroke({ color: chosen ? palette.focus : palette.halo, width: chosen ? 3 : 2 }),
    }),
    zIndex: chosen ? 4 : 3,
  });
}

export function isSmall(extent: readonly number[], resolution: number): boolean {
  const [west = 0, south = 0, east = 0, north = 0] = extent;
  return Math.max(east - west, north - south) / resolution < SMALL_PIXELS;
}

/** The style of a place: its state is a colour, a dash and the words beside the map. */
export function placeStyles(palette: Palette, tone: MapTone, chosen: boolean): Style[] {
  const { line, fill } = palette.tones[tone];
  const dash = { good: [], active: [], waiting: [6, 4], warning: [2, 4], bad: [10, 3, 2, 3], off: [1, 4] }[tone];
  const main = new Style({
    stroke: new Stroke({ color: line, width: chosen ? 3 : 1.75, lineDash: dash }),
    fill: new Fill({ color: chosen ? faded(line, 0.45) : fill }),
    zIndex: chosen ? 2 : 1,
  });
  return chosen ? [new Style({ stroke: new Stroke({ color: palette.focus, width: 6 }), zIndex: 2 }), main] : [main];
}

/** Choose a box or an area on the map: draw it, take what the map shows, type its sides, or paste GeoJSON. */
import Feature from "ol/Feature";
import GeoJSON from "ol/format/GeoJSON";
import type { Polygon as PolygonShape } from "ol/geom";
import { fromExtent } from "ol/geom/Polygon";
import Draw, { createBox } from "ol/interaction/Draw";
import Modify from "ol/interaction/Modify";
import VectorLayer from "ol/layer/Vector";
import VectorSource from "ol/source/Vector";
import CircleStyle from "ol/style/Circle";
import Fill from "ol/style/Fill";
import Stroke from "ol/style/Stroke";
import Style from "ol/style/Style";
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "~/widgets";
import { type BaseMap, faded } from "./base-map";
import { boxOfExtent, boxProblem, extentOfBox } from "./boxes";
import { MapFrame } from "./map-frame";
import type { Bbox, Geometry } from "./types";

export interface BboxPickerProps {
  label: string;
  /** The box, if one was chosen. */
  bbox?: Bbox | undefined;
  onBbox?: ((bbox: Bbox | undefined) => void) | undefined;
  /** With this, areas of any shape can be drawn, too. */
  area?: Geometry | undefined;
  onArea?: ((area: Geometry | undefined) => void) | undefined;
  height?: string;
}

type Mode = "move" | "box" | "polygon";
const SIDES = ["West", "South", "East", "North"] as const;
const format = new GeoJSON();

/** The first geometry of a GeoJSON text; an Error says what is wrong. */
export function readArea(text: string): Geometry {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("This is not JSON. Paste GeoJSON, such as a Feature with a Polygon.");
  }
  const object = value as { type?: unknown; features?: unknown[]; geometry?: unknown } | null;
  const inner = object?.type === "FeatureCollection" ? (object.features?.[0] as typeof object) : object;
  const geometry = (inner?.type === "Feature" ? inner.geometry : inner) as Geometry | null;
  if (geometry?.type !== "Polygon" && geometry?.type !== "MultiPolygon")
    throw new Error("The area must be a Polygon or a MultiPolygon.");
  const [west = 0, south = 0, east = 0, north = 0] = format.readGeometry(geometry).getExtent();
  if (![west, south, east, north].every(Number.isFinite) || west < -360 || east > 360 || south < -90 || north > 90)
    throw new Error("Coordinates are longitude and latitude in degrees (EPSG:4326).");
  return geometry;
}

export default function BboxPicker({
  label,
  bbox,
  onBbox,
  area,
  onArea,
  height = "20rem",
}: BboxPickerProps): JSX.Element {
  const base = useRef<BaseMap | undefined>(undefined);
  const source = useRef(new VectorSource());
  const drawing = useRef<Draw | undefined>(undefined);
  const [mode, setMode] = useState<Mode>("move");
  const [pasted, setPasted] = useState<string>();
  const [pasteProblem, setPasteProblem] = useState<string>();
  const [draft, setDraft] = useState<readonly string[]>();
  const id = useId();
  const report = useRef({ onBbox, onArea });
  report.current = { onBbox, onArea };
  const text = JSON.stringify(area ?? bbox ?? null);

  // the text stands for the box and the area
  useEffect(() => {
    const geometry = area ? format.readGeometry(area) : bbox ? fromExtent(extentOfBox(bbox)) : undefined;
    const shown = source.current.getFeatures()[0]?.getGeometry()?.getExtent().join();
    if (shown === geometry?.getExtent().join() && shown !== undefined) return;
    source.current.clear();
    if (!geometry) return;
    source.current.addFeature(new Feature(geometry));
    base.current?.map.getView().fit(geometry.getExtent(), { padding: [40, 40, 40, 40], maxZoom: 12 });
  }, [text]);

  const take = (feature: Feature) => {
    const geometry = feature.getGeometry() as PolygonShape;
    if (report.current.onArea)
      report.current.onArea(JSON.parse(format.writeGeometry(geometry, { decimals: 6 })) as Geometry);
    else report.current.onBbox?.(boxOfExtent(geometry.getExtent()));
  };

  useEffect(() => {
    const map = base.current?.map;
    if (!map) return;
    if (drawing.current) map.removeInteraction(drawing.current);
    drawing.current = undefined;
    if (mode === "move") return;
    const draw =
      mode === "box"
        ? new Draw({ source: source.current, type: "Circle", geometryFunction: createBox(), freehand: true })
        : new Draw({ source: source.current, type: "Polygon" });
    draw.on("drawstart", () => source.current.clear());
    draw.on("drawend", (event) => {
      take(event.feature);
      setMode("move");
    });
    map.addInteraction(draw);
    drawing.current = draw;
    // `take` reads what it needs by itself
  }, [mode]);

  const ready = (made: BaseMap) => {
    base.current = made;
    const layer = new VectorLayer({ source: source.current });
    made.map.addLayer(layer);
    made.onPalette((palette) =>
      layer.setStyle(
        new Style({
          stroke: new Stroke({ color: palette.focus, width: 2.5 }),
          fill: new Fill({ color: faded(palette.focus, 0.15) }),
          image: new CircleStyle({ radius: 5, fill: new Fill({ color: palette.focus }) }),
        }),
      ),
    );
    const modify = new Modify({ source: source.current });
    modify.on("modifyend", (event) => {
      const feature = event.features.item(0) as Feature | undefined;
      if (feature) take(feature);
    });
    // Moving a corner of a box would make it another shape: boxes are drawn anew, or their sides typed.
    if (report.current.onArea) made.map.addInteraction(modify);
    const geometry = source.current.getFeatures()[0]?.getGeometry();
    if (geometry) made.map.getView().fit(geometry.getExtent(), { padding: [40, 40, 40, 40], maxZoom: 12 });
    return undefined;
  };

  const useView = () => {
    const made = base.current;
    if (!made) return;
    const box = boxOfExtent(made.map.getView().calculateExtent(made.map.getSize()));
    if (onArea) onArea(JSON.parse(format.writeGeometry(fromExtent(extentOfBox(box)))) as Geometry);
    else onBbox?.(box);
  };
  const sides = draft ?? (bbox ? bbox.map(String) : ["", "", "", ""]);
  const numbers = sides.map((side) => (side.trim() === "" ? Number.NaN : Number(side))) as unknown as Bbox;
  const isEmpty = sides.every((side) => side.trim() === "");
  const sideProblem = draft && !isEmpty ? boxProblem(numbers) : undefined;
  const typeSide = (index: number, value: string) => {
    const next = sides.map((side, place) => (place === index ? value : side));
    setDraft(next);
    const box = next.map((side) => (side.trim() === "" ? Number.NaN : Number(side))) as unknown as Bbox;
    if (boxProblem(box) === undefined) {
      onBbox?.(box);
      setDraft(undefined);
    } else if (next.every((side) => side.trim() === "")) onBbox?.(undefined);
  };
  const clear = () => {
    source.current.clear();
    setDraft(undefined);
    onBbox?.(undefined);
    onArea?.(undefined);
  };
  return (
    <div class="bbox-picker">
      <MapFrame
        label={label}
        onReady={ready}
        height={height}
        tools={
          <>
            <Button icon="edit" pressed={mode === "box"} onClick={() => setMode(mode === "box" ? "move" : "box")}>
              Draw a box
            </Button>
            {onArea ? (
              <Button
                icon="graph"
                pressed={mode === "polygon"}
                onClick={() => setMode(mode === "polygon" ? "move" : "polygon")}
              >
                Draw an area
              </Button>
            ) : null}
            <Button icon="eye" onClick={useView}>
              Use this view
            </Button>
            <Button
              look="quiet"
              onClick={() => setPasted(pasted === undefined ? "" : undefined)}
              pressed={pasted !== undefined}
            >
              Paste GeoJSON
            </Button>
            {bbox || area ? (
              <Button look="quiet" icon="cross" onClick={clear}>
                Clear
              </Button>
            ) : null}
          </>
        }
      >
        <p class="map-hint" role="status">
          {mode === "box"
            ? "Press, drag and release to draw the box."
            : mode === "polygon"
              ? "Click each corner; double-click the last one."
              : ""}
        </p>
        {pasted !== undefined ? (
          <div class="field">
            <label for={`${id}-paste`}>GeoJSON</label>
            <textarea
              id={`${id}-paste`}
              rows={4}
              spellcheck={false}
              value={pasted}
              aria-invalid={pasteProblem !== undefined}
              onInput={(event) => setPasted(event.currentTarget.value)}
            />
            {pasteProblem ? <p class="field-problem">{pasteProblem}</p> : null}
            <div>
              <Button
                onClick={() => {
                  try {
                    const geometry = readArea(pasted);
                    setPasteProblem(undefined);
                    if (onArea) onArea(geometry);
                    else onBbox?.(boxOfExtent(format.readGeometry(geometry).getExtent()));
                    setPasted(undefined);
                  } catch (error) {
                    setPasteProblem(error instanceof Error ? error.message : String(error));
                  }
                }}
              >
                Use it
              </Button>
            </div>
          </div>
        ) : null}
        {onBbox ? (
          <fieldset class="bbox-sides">
            <legend class="sr-only">{label}: sides in degrees</legend>
            {SIDES.map((side, index) => (
              <label key={side}>
                <span>{side}</span>
                <input
                  type="text"
                  inputMode="decimal"
                  value={sides[index]}
                  aria-invalid={sideProblem !== undefined}
                  onInput={(event) => typeSide(index, event.currentTarget.value)}
                />
              </label>
            ))}
          </fieldset>
        ) : null}
        {sideProblem ? (
          <p class="field-problem" role="alert">
            {sideProblem}
          </p>
        ) : null}
      </MapFrame>
    </div>
  );
}

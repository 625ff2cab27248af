/** A COG on the map: which bands, in which colours, from which value to which, and the value under the pointer. */

import { toLonLat, transformExtent } from "ol/proj";
import { getRenderPixel } from "ol/render";
import type RenderEvent from "ol/render/Event";
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useQuery } from "~/core/router";
import { Button } from "~/widgets";
import type { BaseMap } from "./base-map";
import { bboxWords, extentOfBox, placeText } from "./boxes";
import { type CogLayer, cogProblem, makeCogLayer, restyle } from "./cog-layer";
import { gradientOf, isScale, type Look, SCALE_NAMES, type ScaleName } from "./colours";
import { usualRange } from "./layers";
import { MapFrame } from "./map-frame";
import { Notice } from "./notice";
import { readCrs } from "./projections";
import type { CogBand, CogSource } from "./types";

export interface CogViewerProps {
  cog: CogSource;
  /** Drawn on the left of a slider, to compare: an earlier revision. */
  before?: CogSource | undefined;
  beforeTitle?: string;
  title?: string;
  height?: string;
}

interface Reading {
  place: string;
  values: readonly number[] | undefined;
}

function usualBands(bands: readonly CogBand[]): string {
  const names = bands.map((band) => band.description?.toLowerCase());
  const colours = ["red", "green", "blue"].map((name) => names.indexOf(name) + 1);
  if (colours.every((number) => number > 0)) return colours.join(",");
  return bands.length >= 3 && bands.every((band) => band.dataType === bands[0]?.dataType) && bands.length <= 4
    ? "1,2,3"
    : "1";
}

function readBands(text: string, count: number): number[] {
  const numbers = text
    .split(",")
    .map(Number)
    .filter((one) => Number.isInteger(one) && one >= 1 && one <= Math.max(1, count));
  return numbers.length === 3 ? numbers : [numbers[0] ?? 1];
}

function valueText(value: number | undefined, band: CogBand | undefined): string {
  if (value === undefined) return "–";
  const digits = Number.isInteger(value) ? String(value) : value.toPrecision(6).replace(/\.?0+$/, "");
  return band?.unit ? `${digits} ${band.unit}` : digits;
}

export default function CogViewer({
  cog,
  before,
  beforeTitle = "Before",
  title = "Now",
  height = "30rem",
}: CogViewerProps): JSX.Element {
  const [bandText, setBands] = useQuery("bands", usualBands(cog.bands));
  const [scaleText, setScale] = useQuery("colours", "viridis");
  const [stretchText, setStretch] = useQuery("stretch", "");
  const bands = readBands(bandText, cog.bands.length);
  const scale: ScaleName = isScale(scaleText) ? scaleText : "viridis";
  const range = usualRange(cog.bands[(bands[0] ?? 1) - 1] ?? cog.bands[0] ?? emptyBand) ?? [0, 255];
  const given = stretchText.split(",").map(Number);
  const [low, high] = given.length === 2 && given.every(Number.isFinite) ? (given as [number, number]) : range;
  const look: Look = { bands, low, high, scale, alpha: undefined, gamma: cog.bands[0]?.dataType === "uint8" ? 1 : 0.6 };
  const lookNow = useRef(look);
  lookNow.current = look;

  const base = useRef<BaseMap | undefined>(undefined);
  const layers = useRef<CogLayer[]>([]);
  const [swipe, setSwipe] = useState(50);
  const swipeNow = useRef(50);
  swipeNow.current = swipe;
  const [reading, setReading] = useState<Reading>();
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  const id = useId();
  const problem = cogProblem(cog) ?? (before ? cogProblem(before) : undefined);
  // Where a degree is as long as wide; at the poles and across the antimeridian, the raster's own.
  const [west, south, east, north] = cog.bbox;
  const own = north > 80 || south < -80 || east < west ? readCrs(cog.code, cog.wkt2) : undefined;
  const isOwn = own !== undefined && own !== "EPSG:4326" && own !== "EPSG:3857" && cog.nativeBbox !== null;
  const projection = isOwn ? own : south < -84 || north > 84 ? "EPSG:4326" : "EPSG:3857";
  const around: [number, number] | undefined = isOwn
    ? [west + (east < west ? east + 360 - west : east - west) / 2, (south + north) / 2]
    : undefined;

  const fit = () => {
    const extent =
      isOwn && cog.nativeBbox ? [...cog.nativeBbox] : transformExtent(extentOfBox(cog.bbox), "EPSG:4326", projection);
    base.current?.map.getView().fit(extent, { padding: [24, 24, 24, 24] });
  };
  // these are the parts of the look
  useEffect(() => {
    for (const layer of layers.current) restyle(layer, lookNow.current);
  }, [bandText, scale, low, high]);
  // the layer reads the slider by itself
  useEffect(() => base.current?.map.render(), [swipe]);

  const ready = (made: BaseMap) => {
    base.current = made;
    const sources = before ? [cog, before] : [cog];
    layers.current = sources.map((one) => makeCogLayer(one, lookNow.current));
    for (const [index, made_] of layers.current.entries()) {
      made.map.addLayer(made_.layer);
      const follow = () => {
        if (made_.source.getState() === "ready") {
          restyle(made_, lookNow.current);
          if (index === 0) setState("ready");
        } else if (made_.source.getState() === "error") setState("failed");
      };
      made_.source.on("change", follow);
      follow();
    }
    if (before) {
      // Each on its own side: where one has no data, the other must not shine through.
      for (const [index, { layer }] of layers.current.entries()) {
        layer.on("prerender", (event) => clip(event as RenderEvent, made, swipeNow.current / 100, index === 1));
        layer.on("postrender", (event) => {
          const gl = (event as RenderEvent).context as WebGLRenderingContext;
          gl.disable(gl.SCISSOR_TEST);
        });
      }
    }
    fit();
    const read = (pixel: number[]) => {
      const [longitude = 0, latitude = 0] = toLonLat(made.map.getCoordinateFromPixel(pixel) ?? [0, 0], projection);
      const data = layers.current[0]?.layer.getData(pixel);
      const values =
        data instanceof DataView || data === null || data === undefined ? undefined : [...(data as Float32Array)];
      const alpha = layers.current[0]?.alpha();
      const isEmpty = alpha !== undefined && values !== undefined && !values[alpha - 1];
      setReading({ place: placeText(longitude, latitude), values: isEmpty ? undefined : values });
    };
    made.map.on("pointermove", (event) => {
      if (!event.dragging) read(event.pixel);
    });
    made.map.on("moveend", () => {
      // For the keyboard: the value in the middle of the map.
      const size = made.map.getSize();
      if (document.activeElement === made.map.getTargetElement() && size)
        read([(size[0] ?? 0) / 2, (size[1] ?? 0) / 2]);
    });
    return () => {
      layers.current = [];
    };
  };
  if (problem) return <Notice tone="warning">{problem}</Notice>;
  const chosen = bands.map((number) => cog.bands[number - 1]);
  return (
    <div class="cog" data-state={state}>
      <MapFrame
        key={`${cog.url} ${before?.url ?? ""}`}
        label={`${cog.title}, ${bboxWords(cog.bbox)}`}
        onReady={ready}
        projection={projection}
        around={around}
        height={height}
        tools={
          <>
            <Button icon="map" onClick={fit}>
              Fit
            </Button>
            {cog.bands.length > 1 ? (
              <label class="map-field">
                Bands
                <select value={bands.join(",")} onChange={(event) => setBands(event.currentTarget.value)}>
                  {cog.bands.length >= 3 ? <option value={threeOf(cog.bands)}>Three as colours</option> : null}
                  {cog.bands.map((band, index) => (
                    <option key={band.name} value={String(index + 1)}>
                      {band.description ?? band.name}
                    </option>
                  ))}
                </select>
              </label>
            ) : null}
            {bands.length === 1 ? (
              <label class="map-field">
                Colours
                <select value={scale} onChange={(event) => setScale(event.currentTarget.value)}>
                  {SCALE_NAMES.map((name) => (
                    <option key={name} value={name}>
                      {name}
                    </option>
                  ))}
                </select>
              </label>
            ) : null}
            <StretchField
              low={low}
              high={high}
              usual={range}
              onChange={(next) => setStretch(next ? next.join(",") : null)}
            />
          </>
        }
      >
        {before ? (
          <div class="swipe">
            <label for={id}>
              <span>{beforeTitle}</span>
              <span>{title}</span>
            </label>
            <input
              id={id}
              type="range"
              min={0}
              max={100}
              value={swipe}
              onInput={(event) => setSwipe(Number(event.currentTarget.value))}
              aria-label={`Share of the map that shows ${beforeTitle}`}
            />
          </div>
        ) : null}
        <div class="cog-foot">
          {bands.length === 1 ? (
            <div
              class="cog-scale"
              role="img"
              aria-label={`Colours from ${valueText(low, chosen[0])} to ${valueText(high, chosen[0])}`}
            >
              <span class="num">{valueText(low, chosen[0])}</span>
              <span class="cog-gradient" style={{ background: gradientOf(scale) }} />
              <span class="num">{valueText(high, chosen[0])}</span>
            </div>
          ) : null}
          <p class="cog-reading" aria-live="polite">
            {state === "loading" ? <span class="faint">Reading the raster…</span> : null}
            {state === "failed" ? (
              <span class="field-problem">The raster could not be read. Try again, or download the file.</span>
            ) : null}
            {state === "ready" && reading ? (
              <>
                <span class="num">{reading.place}</span>{" "}
                <strong class="num" data-testid="cog-value">
                  {reading.values
                    ? bands.map((number) => valueText(reading.values?.[number - 1], cog.bands[number - 1])).join(" · ")
                    : "no data"}
                </strong>
              </>
            ) : state === "ready" ? (
              <span class="faint">
                Point at the map to read values. With the keyboard, the value in the middle is read.
              </span>
            ) : null}
          </p>
        </div>
      </MapFrame>
    </div>
  );
}

const emptyBand: CogBand = {
  name: "b1",
  description: null,
  unit: null,
  dataType: null,
  noData: null,
  minimum: null,
  maximum: null,
  histogram: null,
};

function threeOf(bands: readonly CogBand[]): string {
  const usual = usualBands(bands);
  return usual.includes(",") ? usual : "1,2,3";
}

/** Draw a raster only on one side of the slider. */
function clip(event: RenderEvent, base: BaseMap, share: number, isLeft: boolean): void {
  const gl = event.context as WebGLRenderingContext;
  const [width = 0, height = 0] = base.map.getSize() ?? [];
  const [left = 0, bottom = 0] = getRenderPixel(event, [isLeft ? 0 : width * share, height]);
  const [right = 0, top = 0] = getRenderPixel(event, [isLeft ? width * share : width, 0]);
  gl.enable(gl.SCISSOR_TEST);
  gl.scissor(left, bottom, Math.max(0, right - left), Math.max(0, top - bottom));
}

interface StretchProps {
  low: number;
  high: number;
  usual: readonly [number, number];
  onChange: (range: [number, number] | null) => void;
}

function StretchField({ low, high, usual, onChange }: StretchProps): JSX.Element {
  const isUsual = low === usual[0] && high === usual[1];
  const short = (value: number) => Number(value.toPrecision(5));
  return (
    <fieldset class="map-field stretch">
      <legend class="sr-only">Values from darkest to brightest</legend>
      <span aria-hidden="true">Stretch</span>
      <input
        type="number"
        step="any"
        aria-label="Lowest value"
        value={short(low)}
        onChange={(event) => onChange([event.currentTarget.valueAsNumber, high])}
      />
      <span aria-hidden="true">–</span>
      <input
        type="number"
        step="any"
        aria-label="Highest value"
        value={short(high)}
        onChange={(event) => onChange([low, event.currentTarget.valueAsNumber])}
      />
      {isUsual ? null : (
        <Button look="quiet" onClick={() => onChange(null)} title="From 2 % to 98 % of the values">
          Usual
        </Button>
      )}
    </fieldset>
  );
}

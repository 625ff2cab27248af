/** Any GeoJSON on the map, with a table of its features; nothing in it is taken for markup. */

import { isEmpty } from "ol/extent";
import type Feature from "ol/Feature";
import GeoJSON from "ol/format/GeoJSON";
import VectorLayer from "ol/layer/Vector";
import VectorSource from "ol/source/Vector";
import CircleStyle from "ol/style/Circle";
import Fill from "ol/style/Fill";
import Stroke from "ol/style/Stroke";
import Style from "ol/style/Style";
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Button, JsonTree } from "~/widgets";
import { type BaseMap, faded } from "./base-map";
import { MapFrame } from "./map-frame";
import { Notice } from "./notice";

export interface GeoJsonMapProps {
  /** A geometry, a feature or a collection, in degrees. */
  data: unknown;
  label: string;
  height?: string;
}

const MOST_FEATURES = 20_000;
const MOST_LISTED = 100;

function readFeatures(data: unknown): Feature[] | string {
  try {
    return (new GeoJSON().readFeatures(data as object) as Feature[]).slice(0, MOST_FEATURES);
  } catch {
    return "This is not GeoJSON that a map can show.";
  }
}

export default function GeoJsonMap({ data, label, height }: GeoJsonMapProps): JSX.Element {
  const features = useMemo(() => readFeatures(data), [data]);
  const base = useRef<BaseMap | undefined>(undefined);
  const [chosen, setChosen] = useState<number>();
  const chosenNow = useRef<number | undefined>(undefined);
  chosenNow.current = chosen;
  const source = useMemo(() => {
    const made = new VectorSource();
    if (typeof features !== "string") {
      for (const [index, feature] of features.entries()) feature.set("rmhdag:index", index, true);
      made.addFeatures(features);
    }
    return made;
  }, [features]);
  if (typeof features === "string") return <Notice tone="warning">{features}</Notice>;
  const fit = () => {
    const extent = source.getExtent();
    if (extent && !isEmpty(extent)) base.current?.map.getView().fit(extent, { padding: [30, 30, 30, 30], maxZoom: 14 });
  };
  const ready = (made: BaseMap) => {
    base.current = made;
    const layer = new VectorLayer({ source });
    made.map.addLayer(layer);
    made.onPalette((palette) => {
      const line = palette.tones.active.line;
      const usual = new Style({
        stroke: new Stroke({ color: line, width: 1.75 }),
        fill: new Fill({ color: faded(line, 0.2) }),
        image: new CircleStyle({
          radius: 5,
          fill: new Fill({ color: line }),
          stroke: new Stroke({ color: palette.halo, width: 1.5 }),
        }),
      });
      const marked = new Style({
        stroke: new Stroke({ color: palette.focus, width: 4 }),
        fill: new Fill({ color: faded(palette.focus, 0.3) }),
      });
      layer.setStyle((feature) => (feature.get("rmhdag:index") === chosenNow.current ? [usual, marked] : usual));
    });
    made.map.on("singleclick", (event) => {
      setChosen(made.map.forEachFeatureAtPixel(event.pixel, (one) => one.get("rmhdag:index") as number));
      layer.changed();
    });
    fit();
    return undefined;
  };
  const properties = (feature: Feature): Record<string, unknown> => {
    const { geometry: _, "rmhdag:index": __, ...rest } = feature.getProperties();
    return rest;
  };
  const shown = chosen === undefined ? undefined : features[chosen];
  return (
    <MapFrame
      key={features.length}
      label={label}
      onReady={ready}
      height={height}
      tools={
        <>
          <Button icon="map" onClick={fit}>
            Fit
          </Button>
          <span class="faint">{features.length === 1 ? "1 feature" : `${features.length} features`}</span>
        </>
      }
    >
      <details class="map-details">
        <summary>Features as a list</summary>
        <ol class="map-list">
          {features.slice(0, MOST_LISTED).map((feature, index) => (
            <li key={index}>
              <button
                type="button"
                class="map-list-go"
                onClick={() => {
                  setChosen(index);
                  const extent = feature.getGeometry()?.getExtent();
                  if (extent) base.current?.map.getView().fit(extent, { padding: [60, 60, 60, 60], maxZoom: 14 });
                  source.changed();
                }}
              >
                {String(feature.getId() ?? `Feature ${index + 1}`)}{" "}
                <span class="faint">{feature.getGeometry()?.getType() ?? "without a place"}</span>
              </button>
            </li>
          ))}
        </ol>
      </details>
      {shown ? <JsonTree value={properties(shown)} open={2} /> : null}
    </MapFrame>
  );
}

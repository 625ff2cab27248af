/** Places of assets, jobs or items on a map, with the same in a list. */

import { createEmpty, extend, getCenter, getHeight, getWidth, isEmpty } from "ol/extent";
import Feature from "ol/Feature";
import GeoJSON from "ol/format/GeoJSON";
import Point from "ol/geom/Point";
import VectorLayer from "ol/layer/Vector";
import VectorSource from "ol/source/Vector";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Link, navigate } from "~/core/router";
import { Button } from "~/widgets";
import { type BaseMap, dotStyle, isSmall, placeStyles } from "./base-map";
import { extentOfBox, unionOf } from "./boxes";
import { MapFrame } from "./map-frame";
import type { Place } from "./types";

export interface FootprintMapProps {
  places: readonly Place[];
  label: string;
  /** The one that is pointed at, here or in a list elsewhere. */
  chosen?: string | undefined;
  onChoose?: (id: string | undefined) => void;
  height?: string;
  /** `none` leaves the list to the screen. */
  list?: "below" | "none";
  wheel?: boolean;
}

const MOST_LISTED = 200;
const format = new GeoJSON();

export function fitPlaces(base: BaseMap, places: readonly Place[], animate = false): void {
  const around = unionOf(places.map((place) => place.bbox));
  if (!around) return;
  const extent = extentOfBox(around);
  const size = Math.max(getWidth(extent), getHeight(extent), 0.02);
  const buffered = [
    extent[0] - size * 0.15,
    Math.max(-90, extent[1] - size * 0.15),
    extent[2] + size * 0.15,
    Math.min(90, extent[3] + size * 0.15),
  ];
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches || !animate;
  base.map.getView().fit(buffered, { maxZoom: 12, duration: still ? 0 : 250 });
}

export default function FootprintMap({
  places,
  label,
  chosen,
  onChoose,
  height,
  list = "below",
  wheel = true,
}: FootprintMapProps): JSX.Element {
  const base = useRef<BaseMap | undefined>(undefined);
  const source = useRef(new VectorSource({ wrapX: true }));
  const chosenNow = useRef(chosen);
  const [pointed, setPointed] = useState<string>();
  const [all, setAll] = useState(false);
  const shown = chosen ?? pointed;
  chosenNow.current = shown;
  const choose = (id: string | undefined) => {
    setPointed(id);
    onChoose?.(id);
  };
  const act = useRef(choose);
  act.current = choose;
  const known = useRef(places);

  useEffect(() => {
    const features = places.flatMap((place) => {
      try {
        const geometry = format.readGeometry(place.geometry);
        const feature = new Feature({ geometry, tone: place.tone, to: place.to, extent: extentOfBox(place.bbox) });
        feature.setId(place.id);
        return [feature];
      } catch {
        return [];
      }
    });
    source.current.clear(true);
    source.current.addFeatures(features);
    const isOther =
      known.current !== places && known.current.map((one) => one.id).join() !== places.map((one) => one.id).join();
    known.current = places;
    if (base.current && (isOther || features.length)) fitPlaces(base.current, places);
  }, [places]);
  // the layer reads what is shown by itself
  useEffect(() => source.current.changed(), [shown]);

  const ready = (made: BaseMap) => {
    base.current = made;
    const layer = new VectorLayer({
      source: source.current,
      style: (feature, resolution) => {
        const isChosen = feature.getId() === chosenNow.current;
        const extent = feature.get("extent") as number[] | undefined;
        if (!extent || !isSmall(extent, resolution)) return placeStyles(made.palette(), feature.get("tone"), isChosen);
        return dotStyle(made.palette(), feature.get("tone"), isChosen, new Point(getCenter(extent)));
      },
    });
    made.map.addLayer(layer);
    made.onPalette(() => layer.changed());
    made.map.on("pointermove", (event) => {
      if (event.dragging) return;
      const feature = made.map.forEachFeatureAtPixel(event.pixel, (one) => one, {
        layerFilter: (one) => one === layer,
      });
      made.map.getTargetElement().style.cursor = feature ? "pointer" : "";
      const id = feature?.getId();
      if (String(id ?? "") !== String(chosenNow.current ?? "")) act.current(id === undefined ? undefined : String(id));
    });
    made.map.on("singleclick", (event) => {
      const feature = made.map.forEachFeatureAtPixel(event.pixel, (one) => one, {
        layerFilter: (one) => one === layer,
      });
      const target = feature?.get("to");
      if (typeof target === "string") navigate(target);
      else act.current(feature === undefined ? undefined : String(feature.getId()));
    });
    const extent = source.current
      .getFeatures()
      .reduce((sum, one) => extend(sum, one.getGeometry()?.getExtent() ?? createEmpty()), createEmpty());
    if (!isEmpty(extent)) fitPlaces(made, known.current);
    return undefined;
  };
  const pointedAt = places.find((place) => place.id === shown);
  return (
    <MapFrame
      label={label}
      onReady={ready}
      height={height}
      wheel={wheel}
      tools={
        <>
          <Button look="plain" icon="map" onClick={() => base.current && fitPlaces(base.current, places, true)}>
            Fit
          </Button>
          <span class="map-hover" aria-live="polite">
            {pointedAt ? (
              <>
                <strong>{pointedAt.title}</strong>{" "}
                <span class={`map-state tone-${pointedAt.tone}`}>{pointedAt.state}</span>
              </>
            ) : null}
          </span>
        </>
      }
    >
      {list === "below" && places.length > 0 ? (
        <ul class="map-list" aria-label={label}>
          {places.slice(0, all ? MOST_LISTED : 8).map((place) => (
            <li key={place.id} class={place.id === shown ? "map-list-chosen" : ""}>
              <button
                type="button"
                class="map-list-go"
                onFocus={() => choose(place.id)}
                onClick={() => base.current && fitPlaces(base.current, [place], true)}
                title="Show on the map"
              >
                <span class={`map-swatch tone-${place.tone}`} />
                <span>{place.title}</span> <span class="faint">{place.state}</span>
              </button>
              {place.to ? <Link to={place.to}>Open</Link> : null}
            </li>
          ))}
          {places.length > 8 && !all ? (
            <li>
              <Button look="quiet" onClick={() => setAll(true)}>{`All ${Math.min(places.length, MOST_LISTED)}`}</Button>
            </li>
          ) : null}
        </ul>
      ) : null}
    </MapFrame>
  );
}

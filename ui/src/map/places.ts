/** Answers of the API as places on a map. */
import type { Model } from "~/core/api";
import { to } from "~/core/router";
import { lookOf } from "~/widgets/status";
import type { Bbox, Geometry, Place } from "./types";

/** A feature of `GET /api/v1/footprints`. */
export function placeOf(feature: Model<"Footprint">): Place {
  const facts = feature.properties;
  const isJob = facts.kind === null || facts.kind === undefined;
  const reviewed = facts.approval_state && facts.approval_state !== "none" ? facts.approval_state : facts.status;
  const { word, tone } = lookOf(isJob ? facts.status : reviewed);
  return {
    id: feature.id,
    title: facts.title,
    state: word,
    tone,
    geometry: feature.geometry as Geometry,
    bbox: feature.bbox as unknown as Bbox,
    to: isJob ? to`/jobs/${facts.job_id ?? feature.id}` : to`/assets/${facts.asset_id ?? feature.id}`,
  };
}

/** The place of a STAC item. */
export function placeOfItem(view: Model<"ItemView">): Place | undefined {
  const item = view.item as { geometry?: Geometry | null; bbox?: number[]; properties?: Record<string, unknown> };
  if (!item.geometry || !item.bbox || (item.bbox.length !== 4 && item.bbox.length !== 6)) return undefined;
  const [first, second, third, fourth, fifth] = item.bbox as [number, number, number, number, number];
  const bbox: Bbox = item.bbox.length === 4 ? [first, second, third, fourth] : [first, second, fourth, fifth];
  const title = typeof item.properties?.title === "string" ? item.properties.title : view.item_id;
  return {
    id: `${view.collection_id}/${view.item_id}`,
    title,
    state: "published",
    tone: "good",
    geometry: item.geometry,
    bbox,
  };
}

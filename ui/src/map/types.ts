/** What the maps take and give. Nothing here loads a map library. */

/** West, south, east, north in degrees; across the antimeridian west is above east. */
export type Bbox = readonly [number, number, number, number];

export type MapTone = "good" | "bad" | "active" | "waiting" | "warning" | "off";

/** Something with a place: an asset, a job, an item. */
export interface Place {
  id: string;
  /** What it is called, for hover, the list and screen readers. Always text, never markup. */
  title: string;
  /** The state in a word, such as "approved". */
  state: string;
  tone: MapTone;
  /** GeoJSON geometry in degrees, within ±180. */
  geometry: Geometry;
  bbox: Bbox;
  /** Where it leads, below `/ui`. */
  to?: string;
}

/** GeoJSON as it comes: checked by the reader of the map library, not by types. */
export interface Geometry {
  type: string;
  [part: string]: unknown;
}

/** One child of a fan-out with its place: tiles fill in as their states change. */
export interface Tile {
  index: number;
  state: string;
  tone: MapTone;
  label?: string;
  /** Its corners in degrees, closed or not; or its box. */
  ring?: readonly (readonly [number, number])[];
  bbox?: Bbox;
}

/** A cloud-optimised GeoTIFF that the API serves by range requests. */
export interface CogSource {
  /** `/api/v1/files/…` */
  url: string;
  title: string;
  /** `EPSG:32633`, or null if the coordinate system has no code. */
  code: string | null;
  /** Its definition, for all that the browser does not know. */
  wkt2: string | null;
  bands: readonly CogBand[];
  /** Where it lies, in degrees. */
  bbox: Bbox;
  /** Where it lies, in its own coordinates. */
  nativeBbox: Bbox | null;
  /** The six numbers of the item; a rotated raster cannot be drawn by the browser. */
  transform: readonly number[] | null;
}

export interface CogBand {
  name: string;
  description: string | null;
  unit: string | null;
  dataType: string | null;
  noData: number | null;
  minimum: number | null;
  maximum: number | null;
  /** Counts from minimum to maximum. */
  histogram: readonly number[] | null;
}

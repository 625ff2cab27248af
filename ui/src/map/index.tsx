/** Maps for screens. Importing this loads no map library: each component fetches it when it is first shown. */
import type { ComponentType } from "preact";
import { lazy } from "~/core/screen";
import type { BboxPickerProps } from "./bbox-picker";
import type { CogViewerProps } from "./cog-viewer";
import type { FootprintMapProps } from "./footprint-map";
import type { GeoJsonMapProps } from "./geojson-map";
import type { TileMapProps } from "./tile-map";

export * from "./bbox-filter";
export * from "./boxes";
export * from "./layers";
export * from "./places";
export * from "./tile-places";
export type * from "./types";

/** Places of assets, jobs or items; hover, choose and open them. */
export const FootprintMap: ComponentType<FootprintMapProps> = lazy(() => import("./footprint-map"));
/** A COG by range requests: bands, stretch, colours, values, and a swipe against another one. */
export const CogViewer: ComponentType<CogViewerProps> = lazy(() => import("./cog-viewer"));
/** The children of a fan-out at their places, filling in live. */
export const TileMap: ComponentType<TileMapProps> = lazy(() => import("./tile-map"));
/** Choose a box or an area: draw it, type it, or paste GeoJSON. */
export const BboxPicker: ComponentType<BboxPickerProps> = lazy(() => import("./bbox-picker"));
/** Any GeoJSON, with the properties of the feature that is chosen. */
export const GeoJsonMap: ComponentType<GeoJsonMapProps> = lazy(() => import("./geojson-map"));

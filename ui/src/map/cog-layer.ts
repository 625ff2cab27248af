/** One COG as a layer: tiles and overviews are read by range requests and decoded in a worker of our own origin. */
import WebGLTileLayer from "ol/layer/WebGLTile";
import GeoTIFF from "ol/source/GeoTIFF";
import { colourOf, type Look } from "./colours";
import { readCrs } from "./projections";
import type { CogSource } from "./types";

export interface CogLayer {
  layer: WebGLTileLayer;
  source: GeoTIFF;
  /** The band that says where there is data; known once the header was read. */
  alpha: () => number | undefined;
}

/** Why the browser cannot draw it, in a sentence; undefined if it can. */
export function cogProblem(cog: CogSource): string | undefined {
  const [, skew = 0, , turn = 0] = cog.transform ?? [];
  if (Math.abs(skew) > 1e-12 || Math.abs(turn) > 1e-12)
    return "This raster is rotated, which a browser cannot draw. The picture shows it.";
  if (readCrs(cog.code, cog.wkt2) === undefined)
    return `The coordinate system ${cog.code ?? "of this raster"} came without a definition that the browser understands. Process the file again to add it; the picture shows it meanwhile.`;
  return undefined;
}

export function makeCogLayer(cog: CogSource, look: Look): CogLayer {
  const projection = readCrs(cog.code, cog.wkt2);
  const source = new GeoTIFF({
    // Raw values: the stretch is ours, and the value under the pointer is that of the file.
    normalize: false,
    interpolate: false,
    wrapX: false,
    ...(projection ? { projection } : {}),
    sources: [{ url: cog.url, ...(cog.bands[0]?.noData == null ? {} : { nodata: cog.bands[0].noData }) }],
  });
  const layer = new WebGLTileLayer({ source, style: { color: colourOf(look) }, cacheSize: 256 });
  const alpha = () => (source.bandCount > cog.bands.length && cog.bands.length > 0 ? source.bandCount : undefined);
  return { layer, source, alpha };
}

export function restyle({ layer, alpha }: CogLayer, look: Look): void {
  layer.setStyle({ color: colourOf({ ...look, alpha: alpha() }) });
}

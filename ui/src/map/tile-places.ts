/** Where the children of a fan-out lie: from a grid of tiles, or from boxes in their parameters. */
import type { Bbox } from "./types";

/** The `scheme` of `raster.generate_tiling_scheme`. */
export interface TileGrid {
  width: number;
  height: number;
  tile_width: number;
  tile_height: number;
  /** WKT of the coordinate system. */
  crs: string;
  transform: readonly number[];
}

export interface TileRange {
  first: number;
  count: number;
}

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** The grid in the parameters of a child, if it has one. */
export function gridOf(params: unknown): TileGrid | undefined {
  const scheme = (params as { scheme?: Partial<TileGrid> } | null)?.scheme;
  if (typeof scheme !== "object" || scheme === null || typeof scheme.crs !== "string") return undefined;
  const { width, height, tile_width, tile_height, transform } = scheme;
  if (![width, height, tile_width, tile_height].every((one) => isNumber(one) && one > 0)) return undefined;
  return Array.isArray(transform) && transform.length >= 6 && transform.every(isNumber)
    ? (scheme as TileGrid)
    : undefined;
}

/** A box in the parameters of a child: `bbox`, or that of its `item` or `tile`. */
export function boxOfParams(params: unknown): Bbox | undefined {
  const fields = params as Record<string, { bbox?: unknown } | unknown> | null;
  for (const value of [fields, fields?.item, fields?.tile]) {
    const bbox = (value as { bbox?: unknown } | null | undefined)?.bbox;
    if (Array.isArray(bbox) && bbox.length === 4 && bbox.every(isNumber)) return bbox as unknown as Bbox;
  }
  return undefined;
}

/** The outline of a range of tiles in the grid's own coordinates: whole rows as one block, parts of rows by themselves. */
export function outlineOf(grid: TileGrid, range: TileRange): [number, number][][] {
  const columns = Math.ceil(grid.width / grid.tile_width);
  const rings: [number, number][][] = [];
  let next = range.first;
  const end = range.first + range.count;
  while (next < end) {
    const row = Math.floor(next / columns);
    const column = next % columns;
    const isWhole = column === 0 && end - next >= columns;
    const rows = isWhole ? Math.floor((end - next) / columns) : 1;
    const last = isWhole ? columns : Math.min(columns, column + end - next);
    rings.push(ringOf(grid, column, row, last, row + rows));
    next += isWhole ? rows * columns : last - column;
  }
  return rings;
}

function ringOf(grid: TileGrid, left: number, top: number, right: number, bottom: number): [number, number][] {
  const [a = 1, b = 0, c = 0, d = 0, e = -1, f = 0] = grid.transform;
  const x0 = left * grid.tile_width;
  const x1 = Math.min(grid.width, right * grid.tile_width);
  const y0 = top * grid.tile_height;
  const y1 = Math.min(grid.height, bottom * grid.tile_height);
  const corners: [number, number][] = [
    [x0, y0],
    [x1, y0],
    [x1, y1],
    [x0, y1],
    [x0, y0],
  ];
  return corners.map(([x, y]) => [a * x + b * y + c, d * x + e * y + f]);
}

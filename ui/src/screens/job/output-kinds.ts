/** What an output is, so that it is shown as that. Nothing is believed: outputs come from handlers. */

export type OutputKind = "empty" | "number" | "text" | "flag" | "table" | "stac" | "geojson" | "stored" | "tree";

const GEOMETRIES = new Set([
  "FeatureCollection",
  "Feature",
  "Point",
  "MultiPoint",
  "LineString",
  "MultiLineString",
  "Polygon",
  "MultiPolygon",
  "GeometryCollection",
]);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A value above 64 KB that is stored by itself. */
export function storedOf(value: unknown): { sha256: string; size: number } | undefined {
  const reference = isObject(value) ? value["rmhdag:payload"] : undefined;
  if (!isObject(reference) || typeof reference.sha256 !== "string") return undefined;
  return { sha256: reference.sha256, size: Number(reference.size_bytes) || 0 };
}

export function kindOf(value: unknown): OutputKind {
  if (value === null || value === undefined) return "empty";
  if (typeof value === "number") return "number";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "flag";
  if (storedOf(value)) return "stored";
  if (Array.isArray(value)) return value.length > 0 && value.every(isObject) ? "table" : "tree";
  if (!isObject(value)) return "tree";
  if (typeof value.stac_version === "string" && value.type === "Feature") return "stac";
  if (
    typeof value.type === "string" &&
    GEOMETRIES.has(value.type) &&
    ("coordinates" in value || "features" in value || "geometry" in value || "geometries" in value)
  )
    return "geojson";
  return "tree";
}

/** The columns that rows have, the most common first; at most `most`. */
export function columnsOf(rows: readonly Record<string, unknown>[], most = 8): string[] {
  const counts = new Map<string, number>();
  for (const row of rows.slice(0, 200))
    for (const name of Object.keys(row)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts]
    .sort((one, other) => other[1] - one[1])
    .slice(0, most)
    .map(([name]) => name);
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

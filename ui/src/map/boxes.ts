/** Boxes in degrees as text and numbers, without a map library. */
import type { Bbox } from "./types";

const round = (value: number): number => Math.round(value * 1e6) / 1e6;

/** Longitude into ±180. */
export function wrapLongitude(longitude: number): number {
  return longitude >= -180 && longitude <= 180 ? longitude : ((((longitude + 180) % 360) + 360) % 360) - 180;
}

/** The box of a map's extent, which may lie in another turn of the world. */
export function boxOfExtent([west, south, east, north]: readonly number[] | Bbox): Bbox {
  const low = Math.max(-90, south ?? 0);
  const high = Math.min(90, north ?? 0);
  if ((east ?? 0) - (west ?? 0) >= 360) return [-180, round(low), 180, round(high)];
  return [round(wrapLongitude(west ?? 0)), round(low), round(wrapLongitude(east ?? 0)), round(high)];
}

/** The extent that a map shows for a box: across the antimeridian it runs on beyond 180. */
export function extentOfBox([west, south, east, north]: Bbox): [number, number, number, number] {
  return [west, south, east < west ? east + 360 : east, north];
}

export function bboxText(box: Bbox): string {
  return box.map((value) => String(round(value))).join(",");
}

/** `5.9,45.8,10.5,47.8` as a box; undefined if it is none. */
export function parseBbox(text: string): Bbox | undefined {
  const parts = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const [west, south, east, north] = parts;
  if (parts.length !== 4 || west === undefined || south === undefined || east === undefined || north === undefined)
    return undefined;
  return boxProblem([west, south, east, north]) === undefined ? [west, south, east, north] : undefined;
}

/** What is wrong with a box, in a sentence. */
export function boxProblem([west, south, east, north]: Bbox): string | undefined {
  if (![west, south, east, north].every(Number.isFinite)) return "Each side is a number of degrees.";
  if (Math.abs(west) > 180 || Math.abs(east) > 180) return "Longitudes go from -180 to 180.";
  if (Math.abs(south) > 90 || Math.abs(north) > 90) return "Latitudes go from -90 to 90.";
  if (south >= north) return "South must be below north.";
  if (west === east) return "West and east are the same.";
  return undefined;
}

/** The box around several; the shorter way around the Earth. */
export function unionOf(boxes: readonly Bbox[]): Bbox | undefined {
  if (boxes.length === 0) return undefined;
  const spans = boxes.map(([west, , east]) => [west, east < west ? east + 360 : east] as [number, number]);
  spans.sort((one, other) => one[0] - other[0]);
  let widest = { gap: -1, after: spans.length - 1 };
  let reach = spans[0]?.[1] ?? 0;
  for (const [index, span] of spans.entries()) {
    if (index > 0) {
      if (span[0] - reach > widest.gap) widest = { gap: span[0] - reach, after: index - 1 };
      reach = Math.max(reach, span[1]);
    }
  }
  const around = (spans[0]?.[0] ?? 0) + 360 - reach;
  const south = Math.min(...boxes.map((box) => box[1]));
  const north = Math.max(...boxes.map((box) => box[3]));
  if (around >= widest.gap || spans.length === 1) {
    const west = spans[0]?.[0] ?? -180;
    return reach - west >= 360 ? [-180, south, 180, north] : [west, south, wrapLongitude(reach), north];
  }
  const before = Math.max(...spans.slice(0, widest.after + 1).map((span) => span[1]));
  return [spans[widest.after + 1]?.[0] ?? -180, south, wrapLongitude(before), north];
}

/** `59.13° N 10.25° E`, for people. */
export function placeText(longitude: number, latitude: number, digits = 4): string {
  const x = wrapLongitude(longitude);
  return `${Math.abs(latitude).toFixed(digits)}° ${latitude < 0 ? "S" : "N"} ${Math.abs(x).toFixed(digits)}° ${x < 0 ? "W" : "E"}`;
}

/** `10.1° to 11.2° E, 59.0° to 60.0° N`. */
export function bboxWords([west, south, east, north]: Bbox): string {
  const side = (value: number, plus: string, minus: string) =>
    `${Math.abs(value).toFixed(2)}° ${value < 0 ? minus : plus}`;
  return `${side(west, "E", "W")} to ${side(east, "E", "W")}, ${side(south, "N", "S")} to ${side(north, "N", "S")}`;
}

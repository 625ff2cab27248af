/** The inputs of a workflow as fields, and what people type as values. */

export interface Input {
  name: string;
  type: "string" | "integer" | "number" | "boolean" | "array" | "object";
  required: boolean;
  secret: boolean;
  default: unknown;
  description: string | null;
  enum: readonly unknown[] | null;
  minimum: number | null;
  maximum: number | null;
  multipleOf: number | null;
  minLength: number | null;
  maxLength: number | null;
  pattern: string | null;
  format: string | null;
  minItems: number | null;
  maxItems: number | null;
  items: { type?: string; format?: string; enum?: readonly unknown[]; properties?: Record<string, unknown> } | null;
  properties: Record<string, unknown> | null;
}

export type Values = Record<string, unknown>;
/** How a field is shown. */
export type Widget =
  | "text"
  | "long"
  | "number"
  | "switch"
  | "choice"
  | "choices"
  | "list"
  | "object"
  | "time"
  | "bbox"
  | "area"
  | "container"
  | "blob"
  | "zone"
  | "duration"
  | "crs"
  | "range"
  | "table"
  | "secret";

const AREA_NAMES = /(^|_)(aoi|area|geometry|geojson|polygon|footprint)$/i;
const DURATION_NAMES = /(^|_)(seconds|duration|timeout)$/i;
const CRS_NAMES = /(^|_)(crs|srs|epsg)$/i;
const RANGE_NAMES = /(^|_)(range|period|interval|between)$/i;
/** Units that names end with, as numbers have them behind. */
const UNITS: readonly (readonly [RegExp, string])[] = [
  [/_(percent|pct)$/i, "%"],
  [/_(metres|meters|m)$/i, "m"],
  [/_(km|kilometres|kilometers)$/i, "km"],
  [/_(degrees|deg)$/i, "°"],
  [/_(bytes)$/i, "bytes"],
  [/_(mb|megabytes)$/i, "MB"],
  [/_(pixels|px)$/i, "pixels"],
  [/_(days)$/i, "days"],
  [/_(hours)$/i, "hours"],
  [/_(minutes)$/i, "minutes"],
];
const BOX_NAMES = /(^|_)(bbox|bounds|extent|box)$/i;

export function inputsOf(definition: unknown): Input[] {
  const inputs = (definition as { inputs?: Record<string, Partial<Input>> } | null)?.inputs ?? {};
  return Object.entries(inputs)
    .map(([name, one]) => ({ ...EMPTY, ...one, name }))
    .sort((one, other) => rankOf(one) - rankOf(other) || one.name.localeCompare(other.name));
}

/** Stored definitions have lost the order of their file: where the data is comes first, then what is required. */
function rankOf(input: Input): number {
  const widget = widgetOf(input);
  const place = ["zone", "container", "blob"].indexOf(widget);
  if (place >= 0) return place;
  if (input.required) return 10;
  return { bbox: 20, area: 21, object: 50, switch: 40 }[widget as "bbox"] ?? 30;
}

const EMPTY: Omit<Input, "name"> = {
  type: "string",
  required: false,
  secret: false,
  default: null,
  description: null,
  enum: null,
  minimum: null,
  maximum: null,
  multipleOf: null,
  minLength: null,
  maxLength: null,
  pattern: null,
  format: null,
  minItems: null,
  maxItems: null,
  items: null,
  properties: null,
};

export function widgetOf(input: Input): Widget {
  if (input.secret) return "secret";
  if (input.name === "zone" && input.enum) return "zone";
  if (input.enum) return "choice";
  if (input.type === "boolean") return "switch";
  if (input.type === "integer" || input.type === "number")
    return DURATION_NAMES.test(input.name) ? "duration" : "number";
  if (input.type === "array") {
    const isNumbers =
      input.items === null ||
      input.items.type === undefined ||
      input.items.type === "number" ||
      input.items.type === "integer";
    if (input.format === "bbox" || (BOX_NAMES.test(input.name) && isNumbers)) return "bbox";
    if (input.items?.enum) return "choices";
    const isTimes = input.items?.format === "date" || input.items?.format === "date-time";
    if (isTimes && (input.maxItems === 2 || RANGE_NAMES.test(input.name))) return "range";
    if (input.items?.type === "object") return "table";
    return input.items?.type === "array" ? "object" : "list";
  }
  if (input.type === "object") return input.format === "geojson" || AREA_NAMES.test(input.name) ? "area" : "object";
  if (input.format === "date-time" || input.format === "date") return "time";
  if (CRS_NAMES.test(input.name)) return "crs";
  if (input.name === "container_name" || input.format === "container") return "container";
  if (input.name === "blob_name" || input.format === "blob") return "blob";
  return (input.maxLength ?? 0) > 2000 ? "long" : "text";
}

/** The unit of a number, as its name says. */
export function unitOf(input: Input): string | undefined {
  return UNITS.find(([name]) => name.test(input.name))?.[1];
}

/** What a field may hold, in words: "a whole number, 1 to 128". */
export function limitsText(input: Input): string {
  const parts: string[] = [];
  const { minimum, maximum, minLength, maxLength, minItems, maxItems } = input;
  if (input.type === "integer") parts.push("whole number");
  if (input.type === "number") parts.push("number");
  if (minimum !== null && maximum !== null) parts.push(`${minimum} to ${maximum}`);
  else if (minimum !== null) parts.push(`at least ${minimum}`);
  else if (maximum !== null) parts.push(`at most ${maximum}`);
  if (input.multipleOf !== null) parts.push(`a multiple of ${input.multipleOf}`);
  if (maxLength !== null && maxLength <= 200)
    parts.push(minLength ? `${minLength} to ${maxLength} characters` : `up to ${maxLength} characters`);
  if (minItems !== null || maxItems !== null)
    parts.push(
      minItems === maxItems ? `${minItems} entries` : `${minItems ?? 0} to ${maxItems ?? "any number of"} entries`,
    );
  if (input.pattern && !input.description) parts.push(`fits ${input.pattern}`);
  return parts.join(", ");
}

/** The values that differ from the defaults, as they are sent. */
export function sentValues(inputs: readonly Input[], values: Values): Values {
  const known = new Set(inputs.map((input) => input.name));
  const sent: Values = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    if (!known.has(name) || value !== "" || inputs.find((one) => one.name === name)?.default) sent[name] = value;
  }
  return sent;
}

/** The field that a JSON pointer of the server's answer is about. */
export function fieldOf(pointer: string): string | undefined {
  const match = /^\/input_params\/([^/]+)/.exec(pointer);
  return match?.[1]?.replaceAll("~1", "/").replaceAll("~0", "~");
}

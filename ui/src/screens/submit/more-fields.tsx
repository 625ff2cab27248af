/** Fields for what a bare text field would make people look up: durations, reference systems, times, tables. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { counted } from "~/core";
import type { Input } from "./inputs";
import { rowsOf, secondsOf, secondsText } from "./typed-text";

export interface FieldShared {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
  required: boolean;
}

interface OwnField {
  input: Input;
  value: unknown;
  onChange: (value: unknown) => void;
  shared: FieldShared;
}

/** The other way to write what stands in the field. */
function besideSeconds(draft: string | undefined, seconds: number | undefined): string {
  if (seconds === undefined) return "seconds";
  if (draft !== undefined && !/^[\d.\s]*$/.test(draft)) return `= ${seconds} s`;
  const text = secondsText(seconds);
  return text ? `s = ${text}` : "s";
}

/** Seconds, written as people say them; what cannot be read is sent as it is, and the server says so. */
export function DurationField({ input, value, onChange, shared }: OwnField): JSX.Element {
  const [draft, setDraft] = useState<string>();
  const seconds = typeof value === "number" ? value : undefined;
  const ghost = typeof input.default === "number" ? String(input.default) : "such as 90, 1m 30s or 2h";
  return (
    <span class="with-unit">
      <input
        {...shared}
        type="text"
        placeholder={ghost}
        spellcheck={false}
        value={draft ?? (value === undefined || value === null ? "" : String(value))}
        onInput={(event) => {
          const text = event.currentTarget.value;
          setDraft(text);
          const read = secondsOf(text);
          onChange(text.trim() === "" ? undefined : (read ?? text));
        }}
        onBlur={() => setDraft(undefined)}
      />
      <span class="faint small">{besideSeconds(draft, seconds)}</span>
    </span>
  );
}

const SYSTEMS: readonly (readonly [string, string])[] = [
  ["EPSG:4326", "WGS 84, degrees"],
  ["EPSG:3857", "Web Mercator"],
  ["EPSG:3395", "World Mercator"],
  ["EPSG:6933", "EASE-Grid 2.0, equal area"],
  ["EPSG:3413", "Arctic, polar stereographic"],
  ["EPSG:3031", "Antarctica, polar stereographic"],
  ["EPSG:4258", "ETRS89, degrees"],
  ["EPSG:3035", "Europe, equal area"],
  ["EPSG:5070", "Contiguous USA, equal area"],
  ["EPSG:27700", "British National Grid"],
  ["EPSG:2154", "France, Lambert 93"],
  ["EPSG:2056", "Switzerland, LV95"],
];

/** UTM by zones: 120 of WGS 84 and those of ETRS89. */
function utm(): (readonly [string, string])[] {
  const zones = Array.from({ length: 60 }, (_, index) => index + 1);
  const code = (base: number, zone: number) => `EPSG:${base + zone}`;
  return [
    ...zones.map((zone) => [code(32600, zone), `WGS 84, UTM zone ${zone}N`] as const),
    ...zones.map((zone) => [code(32700, zone), `WGS 84, UTM zone ${zone}S`] as const),
    ...zones.slice(27, 38).map((zone) => [code(25800, zone), `ETRS89, UTM zone ${zone}N`] as const),
  ];
}

/** Common reference systems by code or name; any other can be typed. */
export function CrsField({ input, value, onChange, shared }: OwnField): JSX.Element {
  const list = useId();
  const known = [...SYSTEMS, ...utm()];
  const text = value === undefined || value === null ? "" : String(value);
  const meant = text || (typeof input.default === "string" ? input.default : "");
  const name = known.find(([code]) => code === meant.toUpperCase())?.[1];
  return (
    <span class="with-unit">
      <input
        {...shared}
        type="text"
        list={list}
        placeholder={typeof input.default === "string" ? input.default : "such as EPSG:4326"}
        value={text}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => onChange(event.currentTarget.value.trim() || undefined)}
      />
      <datalist id={list}>
        {known.map(([code, words]) => (
          <option key={code} value={code}>
            {words}
          </option>
        ))}
      </datalist>
      <span class="faint small">{name ?? "code of the authority"}</span>
    </span>
  );
}

/** From one moment to another, as a list of two. */
export function RangeField({ input, value, onChange, shared }: OwnField): JSX.Element {
  const isDate = (input.items as { format?: string } | null)?.format === "date";
  const given = Array.isArray(value) ? value : Array.isArray(input.default) ? input.default : [];
  const set = (index: 0 | 1, text: string) => {
    const next = [String(given[0] ?? ""), String(given[1] ?? "")];
    next[index] = text && !isDate ? `${text}:00Z` : text;
    onChange(next.some((one) => one !== "") ? next : undefined);
  };
  return (
    <fieldset class="range-line" aria-describedby={shared["aria-describedby"]}>
      <legend class="sr-only">{input.name}</legend>
      {(["from", "to"] as const).map((word, index) => (
        <label key={word} class="row">
          <span class="small soft">{word}</span>
          <input
            type={isDate ? "date" : "datetime-local"}
            aria-label={`${input.name}, ${word}${isDate ? "" : ", in UTC"}`}
            aria-invalid={shared["aria-invalid"]}
            value={String(given[index] ?? "").slice(0, isDate ? 10 : 16)}
            onInput={(event) => set(index as 0 | 1, event.currentTarget.value)}
          />
        </label>
      ))}
      {isDate ? null : <span class="small faint">UTC</span>}
    </fieldset>
  );
}

const SHOWN_ROWS = 5;
const SHOWN_COLUMNS = 6;

/** Rows as JSON, or pasted from a spreadsheet or a CSV file with its header. */
export function TableField({ input, value, onChange, shared }: OwnField): JSX.Element {
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState("");
  const rows = Array.isArray(value) ? (value as unknown[]) : [];
  const take = (text: string) => {
    if (text.trim() === "") {
      setProblem("");
      return onChange(undefined);
    }
    const table = rowsOf(text, input.items?.properties);
    if (table) {
      setProblem("");
      return onChange(table);
    }
    try {
      onChange(JSON.parse(text));
      setProblem("");
    } catch {
      setProblem("This is neither a table with a header nor JSON yet.");
    }
  };
  return (
    <>
      <textarea
        {...shared}
        class="mono"
        rows={3}
        spellcheck={false}
        aria-invalid={shared["aria-invalid"] || problem !== ""}
        placeholder="Paste rows of a spreadsheet or of a CSV file with their header, or write JSON"
        value={draft ?? (value === undefined || value === null ? "" : JSON.stringify(value))}
        onInput={(event) => {
          setDraft(event.currentTarget.value);
          take(event.currentTarget.value);
        }}
        onBlur={() => {
          if (!problem) setDraft(undefined);
        }}
      />
      {problem ? <p class="field-problem">{problem}</p> : null}
      {rows.length ? <Preview rows={rows} name={input.name} /> : null}
    </>
  );
}

function Preview({ rows, name }: { rows: readonly unknown[]; name: string }): JSX.Element {
  const objects = rows
    .slice(0, SHOWN_ROWS)
    .map((row) => (typeof row === "object" && row !== null ? row : { value: row }));
  const columns = [...new Set(objects.flatMap((row) => Object.keys(row)))];
  const text = (value: unknown) =>
    value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return (
    <div class="table-preview">
      <table>
        <caption class="small soft">
          {counted(rows.length, "row")}, {counted(columns.length, "column")}
          {rows.length > SHOWN_ROWS ? `; the first ${SHOWN_ROWS}:` : ""}
          <span class="sr-only"> of {name}</span>
        </caption>
        <thead>
          <tr>
            {columns.slice(0, SHOWN_COLUMNS).map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {objects.map((row, index) => (
            <tr key={index}>
              {columns.slice(0, SHOWN_COLUMNS).map((column) => (
                <td key={column}>{text((row as Record<string, unknown>)[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

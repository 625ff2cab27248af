/** What people type or paste, as values: durations, tables, lists. */

const UNITS: Record<string, number> = { s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 };

/** Seconds in `90`, `1m 30s`, `2h`, `1.5 d`; undefined if it is something else. */
export function secondsOf(text: string): number | undefined {
  const clean = text.trim().toLowerCase();
  if (/^\d+(\.\d+)?$/.test(clean)) return Number(clean);
  const parts = [...clean.matchAll(/(\d+(?:\.\d+)?)\s*(sec|min|[smhdw])\s*/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join("") !== clean) return undefined;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0);
}

/** `5400` as `1h 30m`; nothing is rounded away. */
export function secondsText(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 60) return "";
  let rest = seconds;
  const parts: string[] = [];
  for (const unit of ["d", "h", "m"]) {
    const count = Math.floor(rest / (UNITS[unit] ?? 1));
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * (UNITS[unit] ?? 1);
  }
  if (rest > 0) parts.push(`${Number(rest.toFixed(3))}s`);
  return parts.join(" ");
}

/** Lines and cells of a text that a spreadsheet copied or a CSV file holds: quotes may hold the delimiter and lines. */
export function cellsOf(text: string): string[][] {
  const first = text.split(/\r?\n/, 1)[0] ?? "";
  const delimiter = ["\t", ";", ","].find((one) => first.includes(one)) ?? ",";
  const rows: string[][] = [[]];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at] as string;
    if (isQuoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else isQuoted = false;
    } else if (sign === '"' && cell === "") isQuoted = true;
    else if (sign === delimiter || sign === "\n") {
      rows.at(-1)?.push(cell.replace(/\r$/, ""));
      cell = "";
      if (sign === "\n") rows.push([]);
    } else cell += sign;
  }
  rows.at(-1)?.push(cell.replace(/\r$/, ""));
  return rows.filter((row) => row.some((one) => one.trim() !== ""));
}

type Kinds = Readonly<Record<string, unknown>> | null | undefined;

function typed(text: string, kind: unknown): unknown {
  const type = (kind as { type?: string } | undefined)?.type;
  const clean = text.trim();
  if (clean === "") return undefined;
  if (type === "number" || type === "integer") return Number.isFinite(Number(clean)) ? Number(clean) : clean;
  if (type === "boolean") return { true: true, yes: true, false: false, no: false }[clean.toLowerCase()] ?? clean;
  return type === undefined && /^-?(0|[1-9]\d*)(\.\d+)?$/.test(clean) ? Number(clean) : clean;
}

/** The rows of a pasted table as objects, by its header; undefined if the text is no table. */
export function rowsOf(text: string, properties: Kinds): Record<string, unknown>[] | undefined {
  if (/^\s*[[{]/.test(text)) return undefined;
  const [header, ...lines] = cellsOf(text);
  const names = header?.map((name) => name.trim()) ?? [];
  if (lines.length === 0 || names.some((name) => name === "") || new Set(names).size < names.length) return undefined;
  return lines.map((cells) =>
    Object.fromEntries(
      names.flatMap((name, index) => {
        const value = typed(cells[index] ?? "", properties?.[name]);
        return value === undefined ? [] : [[name, value]];
      }),
    ),
  );
}

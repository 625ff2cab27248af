/** A definition as YAML, as people would write it. */

export function toYaml(value: unknown): string {
  return `${write(value, 0).replace(/^\n/, "")}\n`;
}

const FIRST = [
  "workflow_id",
  "name",
  "version",
  "description",
  "type",
  "handler",
  "message",
  "source",
  "inputs",
  "defaults",
  "nodes",
];
const LAST = ["retry", "depends_on", "next", "outputs"];

/** A definition in the order in which people write it, without what is empty: the database keeps no order of names. */
export function tidy(value: unknown, order: readonly string[] = []): unknown {
  if (Array.isArray(value)) return value.map((item) => tidy(item));
  if (typeof value !== "object" || value === null) return value;
  const place = (name: string): number => {
    if (order.includes(name)) return order.indexOf(name);
    if (FIRST.includes(name)) return FIRST.indexOf(name) - 1_000;
    return LAST.includes(name) ? 2_000 + LAST.indexOf(name) : 1_000;
  };
  const entries = Object.entries(value)
    .map(([name, item]) => [name, tidy(item, name === "nodes" ? order : [])] as const)
    .filter(([, item]) => item !== null && !(typeof item === "object" && Object.keys(item as object).length === 0));
  entries.sort(([one], [other]) => place(one) - place(other) || one.localeCompare(other));
  return Object.fromEntries(entries);
}

function write(value: unknown, depth: number): string {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return " []";
    if (value.every((item) => typeof item !== "object" || item === null)) {
      const line = ` [${value.map(scalar).join(", ")}]`;
      if (line.length <= 80) return line;
    }
    return value
      .map((item) => {
        const inner = write(item, depth + 1);
        // The first line of an object stands behind the dash.
        return `\n${pad}-${inner.startsWith("\n") ? ` ${inner.slice(1 + pad.length + 2)}` : inner}`;
      })
      .join("");
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    if (entries.length === 0) return " {}";
    return entries.map(([key, item]) => `\n${pad}${scalar(key)}:${write(item, depth + 1)}`).join("");
  }
  if (typeof value === "string" && value.includes("\n") && !/[^\S\n]\n|^\s|\r|\t/.test(value)) {
    const lines = value.replace(/\n$/, "").split("\n");
    return ` |${value.endsWith("\n") ? "" : "-"}${lines.map((line) => (line ? `\n${pad}${line}` : "\n")).join("")}`;
  }
  return ` ${scalar(value)}`;
}

const PLAIN = /^[A-Za-z_/][\w ./()+*-]*$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|y|n|~)$/i;

function scalar(value: unknown): string {
  if (typeof value !== "string") return String(value);
  const isPlain = PLAIN.test(value) && !RESERVED.test(value) && !/\s$| #|: /.test(value);
  return isPlain ? value : JSON.stringify(value);
}

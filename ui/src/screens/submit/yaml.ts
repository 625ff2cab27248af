/** Parameters as YAML: what people write by hand. Values are written as JSON has them, so that nothing changes on the
 * way; what is beyond that (anchors, tags, folded text) is refused with its line. */

const PLAIN_KEY = /^[A-Za-z_][\w.-]*$/;
const PLAIN_TEXT = /^[A-Za-z_/][\w ./@+-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "~"]);

export class YamlError extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(`Line ${line}: ${message}`);
    this.line = line;
  }
}

function textOf(value: string): string {
  const isPlain = PLAIN_TEXT.test(value) && !WORDS.has(value.toLowerCase()) && value.trim() === value;
  return isPlain ? value : JSON.stringify(value);
}

export function writeYaml(value: unknown, depth = 0): string {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (value.length === 0) return `${pad}[]\n`;
    if (value.every((one) => typeof one === "number" || typeof one === "boolean"))
      return `${pad}[${value.join(", ")}]\n`;
    return value.map((one) => `${pad}- ${inner(one, depth)}`).join("");
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) return `${pad}{}\n`;
    return entries
      .map(([key, one]) => {
        const name = PLAIN_KEY.test(key) && !WORDS.has(key.toLowerCase()) ? key : JSON.stringify(key);
        const isShort = typeof one !== "object" || one === null || isFlow(one);
        return isShort
          ? `${pad}${name}: ${writeYaml(one).trimStart()}`
          : `${pad}${name}:\n${writeYaml(one, depth + 1)}`;
      })
      .join("");
  }
  return `${pad}${typeof value === "string" ? textOf(value) : JSON.stringify(value)}\n`;
}

const isFlow = (value: object): boolean =>
  Array.isArray(value)
    ? value.every((one) => typeof one === "number" || typeof one === "boolean")
    : Object.keys(value).length === 0;

function inner(value: unknown, depth: number): string {
  if (typeof value !== "object" || value === null || isFlow(value)) return writeYaml(value).trimStart();
  return writeYaml(value, depth + 1).trimStart();
}

interface Line {
  number: number;
  indent: number;
  text: string;
}

function linesOf(text: string): Line[] {
  const lines: Line[] = [];
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = withoutComment(raw).trimEnd();
    if (line.trim() === "" || (lines.length === 0 && line === "---")) continue;
    const indent = line.length - line.trimStart().length;
    if (line.slice(0, indent).includes("\t")) throw new YamlError(index + 1, "Indent with spaces, not tabs.");
    lines.push({ number: index + 1, indent, text: line.trimStart() });
  }
  return lines;
}

function withoutComment(line: string): string {
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const letter = line[at] ?? "";
    if (quote) {
      if (letter === "\\" && quote === '"') at++;
      else if (letter === quote) quote = "";
    } else if (letter === '"' || letter === "'") quote = letter;
    else if (letter === "#" && (at === 0 || /\s/.test(line[at - 1] ?? ""))) return line.slice(0, at);
  }
  return line;
}

/** The value of a YAML text. Throws a YamlError with the line. */
export function readYaml(text: string): unknown {
  const whole = text.trim();
  if (whole === "") return {};
  if (/^[[{]/.test(whole)) {
    try {
      return JSON.parse(whole);
    } catch {
      // Flow style over one line is read below; else the message names the place.
    }
  }
  const reader = new Reader(linesOf(text));
  return reader.document();
}

class Reader {
  private at = 0;
  private readonly lines: readonly Line[];

  constructor(lines: readonly Line[]) {
    this.lines = lines;
  }

  document(): unknown {
    const first = this.lines[0];
    if (!first) return {};
    const value = this.block(first.indent);
    const rest = this.lines[this.at];
    if (rest) throw new YamlError(rest.number, "This is indented unlike the lines before it.");
    return value;
  }

  private block(indent: number): unknown {
    const line = this.lines[this.at];
    if (!line || line.indent < indent) return null;
    if (line.text === "-" || line.text.startsWith("- ")) return this.list(line.indent);
    if (keyOf(line)) return this.map(line.indent);
    this.at++;
    return scalar(line.text, line.number);
  }

  private list(indent: number): unknown[] {
    const values: unknown[] = [];
    for (
      let line = this.lines[this.at];
      line && line.indent === indent && /^-(\s|$)/.test(line.text);
      line = this.lines[this.at]
    ) {
      const rest = line.text.slice(1).trimStart();
      if (rest === "") {
        this.at++;
        values.push(this.block(indent + 1));
        continue;
      }
      // `- key: value` is a map whose lines begin behind the dash.
      const inside: Line = { number: line.number, indent: indent + line.text.length - rest.length, text: rest };
      if (!keyOf(inside)) {
        this.at++;
        values.push(scalar(rest, line.number));
        continue;
      }
      (this.lines as Line[])[this.at] = inside;
      values.push(this.map(inside.indent));
    }
    return values;
  }

  private map(indent: number): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (let line = this.lines[this.at]; line && line.indent === indent; line = this.lines[this.at]) {
      const found = keyOf(line);
      if (!found) throw new YamlError(line.number, "A name with a colon is expected, such as `name: value`.");
      const [key, rest] = found;
      if (Object.hasOwn(values, key)) throw new YamlError(line.number, `${key} is given twice.`);
      this.at++;
      const next = this.lines[this.at];
      const isListBelow = next?.indent === indent && /^-(\s|$)/.test(next.text);
      const value = rest !== "" ? scalar(rest, line.number) : isListBelow ? this.list(indent) : this.block(indent + 1);
      Object.defineProperty(values, key, { value, enumerable: true, writable: true, configurable: true });
    }
    return values;
  }
}

function keyOf({ text, number }: Line): [string, string] | undefined {
  const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+(.*))?$/.exec(text);
  if (quoted) return [String(scalar(quoted[1] ?? "", number)), quoted[2]?.trim() ?? ""];
  const plain = /^([^\s"'[\]{},#&*!|>%@`-][^:]*|-[^\s:][^:]*)\s*:(?:\s+(.*))?$/.exec(text);
  return plain ? [(plain[1] ?? "").trim(), plain[2]?.trim() ?? ""] : undefined;
}

function scalar(text: string, line: number): unknown {
  if (/^[&*!|>%@`]/.test(text))
    throw new YamlError(line, "Anchors, tags and folded text are not read here: write the value in quotes.");
  if (text.startsWith('"')) {
    try {
      return JSON.parse(text);
    } catch {
      throw new YamlError(line, "A text in double quotes is not closed, or has an unknown escape.");
    }
  }
  if (text.startsWith("'")) {
    if (!/^'(?:[^']|'')*'$/.test(text)) throw new YamlError(line, "A text in single quotes is not closed.");
    return text.slice(1, -1).replaceAll("''", "'");
  }
  if (/^[[{]/.test(text)) return flow(text, line);
  if (/^(null|~|Null|NULL)$/.test(text)) return null;
  if (/^(true|True|TRUE)$/.test(text)) return true;
  if (/^(false|False|FALSE)$/.test(text)) return false;
  if (/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text)) return Number(text);
  return text;
}

/** `[1, a]` and `{a: 1}` on one line, with JSON's own quotes or plain words. */
function flow(text: string, line: number): unknown {
  const words = text.replace(
    /("(?:[^"\\]|\\.)*")|('(?:[^']|'')*')|([^\s[\]{},:"'][^[\]{},:"']*)/g,
    (match, double: string, single: string) => {
      if (double) return double;
      if (single) return JSON.stringify(single.slice(1, -1).replaceAll("''", "'"));
      return JSON.stringify(scalar(match.trim(), line));
    },
  );
  // Names in braces are texts even if they look like numbers or words.
  const named = words.replace(/([{,]\s*)(-?\d[\d.]*|true|false|null)(\s*:)/g, '$1"$2"$3');
  try {
    return JSON.parse(named);
  } catch {
    throw new YamlError(line, "This list or object is not closed, or not written as `[a, b]` or `{a: 1}`.");
  }
}

/** Text of programs, as text: YAML and JSON get colours, and nothing in it is ever markup. */
import type { JSX } from "preact";
import { CopyButton } from "./button";

type Piece = [kind: "" | "key" | "string" | "number" | "word" | "comment" | "template", text: string];

const VALUE =
  /(\{\{.*?\}\})|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|(?<![\w.-])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.-])|\b(true|false|null|yes|no)\b|(\s#.*$)/g;
const KINDS = ["template", "string", "number", "word", "comment"] as const;

function valuePieces(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(VALUE)) {
    if (match.index > end) pieces.push(["", text.slice(end, match.index)]);
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)] ?? "";
    pieces.push([kind, match[0]]);
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push(["", text.slice(end)]);
  return pieces;
}

function linePieces(line: string): Piece[] {
  if (/^\s*#/.test(line)) return [["comment", line]];
  const key = /^(\s*(?:- )*)("[^"]*"|[\w.$/-]+)(:)(?=\s|$)/.exec(line);
  if (!key) return valuePieces(line);
  return [["", key[1] ?? ""], ["key", key[2] ?? ""], ["", ":"], ...valuePieces(line.slice(key[0].length))];
}

interface CodeProps {
  text: string;
  language?: "yaml" | "json" | "text";
  /** Lines to mark, from 1. */
  marked?: ReadonlySet<number>;
  copy?: boolean;
  numbers?: boolean;
  label?: string;
}

export function Code({
  text,
  language = "text",
  marked,
  copy = true,
  numbers = false,
  label = "Code",
}: CodeProps): JSX.Element {
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    <div class="code">
      {copy ? <CopyButton text={text} words={false} /> : null}
      {/* biome-ignore lint/a11y: long text must scroll by keyboard, and say what it is */}
      <pre tabIndex={0} role="region" aria-label={label}>
        <code>
          {lines.map((line, index) => (
            <span
              key={index}
              class={`code-line ${marked?.has(index + 1) ? "code-marked" : ""}`}
              data-line={numbers ? index + 1 : undefined}
            >
              {language === "text"
                ? line
                : linePieces(line).map(([kind, piece], place) =>
                    kind ? (
                      <span key={place} class={`code-${kind}`}>
                        {piece}
                      </span>
                    ) : (
                      piece
                    ),
                  )}
              {"\n"}
            </span>
          ))}
        </code>
      </pre>
    </div>
  );
}

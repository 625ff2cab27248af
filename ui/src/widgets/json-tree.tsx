/** A JSON value that opens level by level, so that a large one costs only what is looked at. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { countText } from "../core/numbers";

const PAGE = 100;

function leaf(value: unknown): JSX.Element {
  if (typeof value === "string") return <span class="code-string">{JSON.stringify(value)}</span>;
  if (typeof value === "number") return <span class="code-number">{String(value)}</span>;
  return <span class="code-word">{String(value)}</span>;
}

interface TreeProps {
  value: unknown;
  name?: string;
  /** How many levels are open at first. */
  open?: number;
}

export function JsonTree({ value, name, open = 2 }: TreeProps): JSX.Element {
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(PAGE);
  const title = name === undefined ? null : <span class="code-key">{name}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div class="tree-leaf">
        {title}
        {leaf(value)}
      </div>
    );
  }
  const entries = Array.isArray(value)
    ? value.slice(0, most).map((item, index) => [String(index), item] as const)
    : Object.entries(value).slice(0, most);
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const words = Array.isArray(value) ? `[${countText(size)}]` : `{${countText(size)}}`;
  return (
    <details class="tree" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title}
        <span class="faint">{words}</span>
      </summary>
      {isOpen ? (
        <div class="tree-body">
          {entries.map(([key, item]) => (
            <JsonTree key={key} name={key} value={item} open={open - 1} />
          ))}
          {size > most ? (
            <button type="button" class="button button-quiet" onClick={() => setMost(most + 10 * PAGE)}>
              {countText(size - most)} more
            </button>
          ) : null}
        </div>
      ) : null}
    </details>
  );
}

/** A table of any length: only the rows in sight are in the page. `j` and `k` move, Enter opens, `x` selects. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { densityShown } from "../core/preferences";
import { navigate } from "../core/router";

export interface Column<Row> {
  id: string;
  title: ComponentChildren;
  cell: (row: Row) => ComponentChildren;
  /** CSS width such as `"8rem"`; without one the columns share what is left. */
  width?: string;
  align?: "left" | "right";
  /** Left out where there is little room. */
  hide?: "narrow" | "medium" | "large";
}

interface TableProps<Row> {
  /** For screen readers: "Jobs". */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** Where Enter and a click on a free part of the row lead. */
  rowTo?: (row: Row) => string | undefined;
  selected?: ReadonlySet<string>;
  onSelect?: (keys: ReadonlySet<string>) => void;
  /** What opens below a row with `e`. */
  detail?: (row: Row) => ComponentChildren;
  /** Called when the end comes in sight, to load more. */
  onEnd?: () => void;
  /** How many rows there are in all, if that is known. */
  total?: number;
}

const OVERSCAN = 12;
const HEIGHTS = { compact: 34, roomy: 44 };

export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { label, columns, rows, rowKey, rowTo, selected, onSelect, detail, onEnd, total } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const [active, setActive] = useState(-1);
  // Keys that follow each other faster than the page is drawn must not act on the row before.
  const current = useRef(-1);
  const [opened, setOpened] = useState<string>();
  const height = HEIGHTS[densityShown.value];
  const [width, setWidth] = useState(columns.length + 1);

  useLayoutEffect(() => {
    const measure = () => {
      if (!body.current) return;
      const top = body.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(-top / height) - OVERSCAN);
      const last = Math.min(rows.length, Math.ceil((window.innerHeight - top) / height) + OVERSCAN);
      setRange((before) => (before[0] === first && before[1] === last ? before : [first, Math.max(last, first)]));
      // A cell across more columns than there is room for would make those that are left out.
      const heads = body.current.parentElement?.querySelectorAll<HTMLElement>("th[scope=col]") ?? [];
      setWidth([...heads].filter((head) => head.offsetWidth > 0).length);
    };
    measure();
    window.addEventListener("scroll", measure, { passive: true, capture: true });
    window.addEventListener("resize", measure);
    // What is above may become larger or smaller, and with it other rows come in sight.
    let frame = 0;
    const moves = new ResizeObserver(() => {
      window.cancelAnimationFrame(frame);
      frame = window.requestAnimationFrame(measure);
    });
    moves.observe(document.body);
    return () => {
      moves.disconnect();
      window.cancelAnimationFrame(frame);
      window.removeEventListener("scroll", measure, { capture: true });
      window.removeEventListener("resize", measure);
    };
  }, [rows.length, height, columns.length]);

  const [first, last] = range;
  useEffect(() => {
    if (last >= rows.length) onEnd?.();
  }, [last, rows.length, onEnd]);

  const goTo = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    current.current = next;
    setActive(next);
    const top = body.current?.getBoundingClientRect().top ?? 0;
    const y = top + next * height;
    if (y < 120) window.scrollBy(0, y - 120);
    else if (y > window.innerHeight - 2 * height) window.scrollBy(0, y - window.innerHeight + 2 * height);
    window.requestAnimationFrame(() => body.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus());
  };
  const toggle = (row: Row) => {
    if (!onSelect || !selected) return;
    const next = new Set(selected);
    if (!next.delete(rowKey(row))) next.add(rowKey(row));
    onSelect(next);
  };
  const open = (row: Row | undefined) => {
    const target = row === undefined ? undefined : rowTo?.(row);
    if (target) navigate(target);
  };
  useKeys(() => {
    const here = () => rows[current.current];
    const bindings = [
      { keys: "j", label: "Next row", group: "List", run: () => goTo(current.current + 1) },
      { keys: "k", label: "Row before", group: "List", run: () => goTo(current.current - 1) },
    ];
    if (rowTo) bindings.push({ keys: "o", label: "Open the row (as Enter)", group: "List", run: () => open(here()) });
    if (onSelect) {
      const run = () => {
        const row = here();
        if (row !== undefined) toggle(row);
      };
      bindings.push({ keys: "x", label: "Select the row", group: "List", run });
    }
    if (detail) {
      const run = () => {
        const row = here();
        if (row !== undefined) setOpened(opened === rowKey(row) ? undefined : rowKey(row));
      };
      bindings.push({ keys: "e", label: "Expand the row", group: "List", run });
    }
    return bindings;
  }, [rows, selected, opened]);

  const allChosen = rows.length > 0 && selected !== undefined && rows.every((row) => selected.has(rowKey(row)));
  const filler = (count: number) =>
    count > 0 ? <tr class="row-filler" style={{ height: `${count * height}px` }} /> : null;
  return (
    <table class="table" aria-label={label} aria-rowcount={total ?? rows.length}>
      <colgroup>
        {onSelect ? <col style={{ width: "2.75rem" }} /> : null}
        {columns.map((column) => (
          <col
            key={column.id}
            class={column.hide ? `hide-${column.hide}` : ""}
            style={column.width ? { width: column.width } : {}}
          />
        ))}
      </colgroup>
      <thead>
        <tr>
          {onSelect ? (
            <th scope="col">
              <input
                type="checkbox"
                aria-label="Select all rows that are loaded"
                checked={allChosen}
                onChange={() => onSelect(new Set(allChosen ? [] : rows.map(rowKey)))}
              />
            </th>
          ) : null}
          {columns.map((column) => (
            <th
              key={column.id}
              scope="col"
              class={`${column.hide ? `hide-${column.hide}` : ""} align-${column.align ?? "left"}`}
            >
              {column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {filler(first)}
        {rows.slice(first, last).map((row, offset) => {
          const index = first + offset;
          const key = rowKey(row);
          return (
            <>
              <tr
                key={key}
                data-row={index}
                data-key={key}
                tabIndex={index === active || (active < 0 && index === 0) ? 0 : -1}
                aria-rowindex={index + 2}
                aria-selected={selected ? selected.has(key) : undefined}
                class={`${index === active ? "row-active" : ""} ${rowTo ? "row-link" : ""}`}
                style={{ height: `${height}px` }}
                onFocus={() => {
                  current.current = index;
                  setActive(index);
                }}
                onKeyDown={(event) => {
                  if (event.key === "Enter" && event.target === event.currentTarget) open(row);
                  else if (event.key === "ArrowDown") goTo(index + 1);
                  else if (event.key === "ArrowUp") goTo(index - 1);
                  else return;
                  event.preventDefault();
                }}
                onClick={(event) => {
                  const target = event.target as HTMLElement;
                  if (!target.closest("a, button, input, label") && !window.getSelection()?.toString()) open(row);
                }}
              >
                {onSelect ? (
                  <td class="cell-check">
                    <input
                      type="checkbox"
                      aria-label={`Select ${key}`}
                      checked={selected?.has(key) ?? false}
                      onChange={() => toggle(row)}
                    />
                  </td>
                ) : null}
                {columns.map((column) => (
                  <td
                    key={column.id}
                    class={`${column.hide ? `hide-${column.hide}` : ""} align-${column.align ?? "left"}`}
                  >
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
              {detail && opened === key ? (
                <tr class="row-detail">
                  <td colSpan={width}>{detail(row)}</td>
                </tr>
              ) : null}
            </>
          );
        })}
        {filler(rows.length - last)}
      </tbody>
    </table>
  );
}

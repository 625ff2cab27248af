/** Ten thousand squares on one canvas. Only those that changed are painted again. */
import type { Signal } from "@preact/signals";
import { useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { countText, theme } from "~/core";
import { lookOf } from "~/widgets";
import { changed, gridFor, indexAt, placeOf } from "./squares";

const MOST_HEIGHT = 360;

/** A token as a canvas takes it: tokens depend on the theme, and only a computed colour is resolved. */
function colourOf(element: HTMLElement, token: string): string {
  element.style.color = `var(${token})`;
  return getComputedStyle(element).color;
}

interface SquaresProps {
  /** A digit per child. */
  statuses: Signal<string>;
  legend: readonly string[];
  /** Squares that do not match are faint. */
  isShown: (index: number) => boolean;
  filter: string;
  chosen: number | undefined;
  onChoose: (index: number) => void;
  nameOf: (index: number) => string;
}

export function Squares({ statuses, legend, isShown, filter, chosen, onChoose, nameOf }: SquaresProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painted = useRef("");
  const [width, setWidth] = useState(0);
  const [over, showOver] = useState<number>();
  // Keys may come faster than drawings.
  const cursor = useRef<number | undefined>(undefined);
  const setOver = (index: number | undefined) => {
    cursor.current = index;
    showOver(index);
  };
  const count = statuses.value.length;
  const grid = gridFor(count, Math.max(40, width), MOST_HEIGHT);

  useLayoutEffect(() => {
    const element = host.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => setWidth(element.clientWidth));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);

  const paint = (indexes: Iterable<number>, text: string) => {
    const context = canvas.current?.getContext("2d");
    const element = canvas.current;
    if (!context || !element) return;
    const colours = legend.map((status) =>
      colourOf(element, status === "pending" ? "--line" : `--${lookOf(status).tone}`),
    );
    const ground = colourOf(element, "--surface");
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const gap = grid.pitch > 7 ? 2 : 1;
    for (const index of indexes) {
      const [x, y] = placeOf(grid, index);
      const status = Number(text[index]);
      context.clearRect(x, y, grid.pitch, grid.pitch);
      context.globalAlpha = isShown(index) ? 1 : 0.12;
      context.fillStyle = colours[status] ?? ground;
      context.fillRect(x, y, grid.pitch - gap, grid.pitch - gap);
      if (legend[status] === "failed" && grid.pitch > 7) {
        // A cross, so that failures show without colours.
        context.globalAlpha = 1;
        context.strokeStyle = ground;
        context.beginPath();
        context.moveTo(x + 3, y + 3);
        context.lineTo(x + grid.pitch - gap - 3, y + grid.pitch - gap - 3);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    painted.current = text;
  };
  const everything = () =>
    paint(
      Array.from({ length: statuses.peek().length }, (_, index) => index),
      statuses.peek(),
    );
  useEffect(() => {
    const element = canvas.current;
    if (!element || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    element.width = grid.width * ratio;
    element.height = grid.height * ratio;
    everything();
  }, [width, count, filter, theme.value]);
  useSignalEffect(() => {
    const text = statuses.value;
    if (painted.current.length === text.length && painted.current !== text) paint(changed(painted.current, text), text);
  });
  useEffect(() => {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", everything);
    return () => media.removeEventListener("change", everything);
  });
  const at = (event: MouseEvent) => indexAt(grid, event.offsetX, event.offsetY, count);
  const shown = over ?? chosen;
  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: grid.columns,
      ArrowUp: -grid.columns,
      Home: -count,
      End: count,
    };
    const step = steps[event.key];
    if (step !== undefined) setOver(Math.max(0, Math.min(count - 1, (cursor.current ?? chosen ?? 0) + step)));
    else if (event.key === "Enter" && (cursor.current ?? chosen) !== undefined) onChoose(cursor.current ?? chosen ?? 0);
    else return;
    event.preventDefault();
  };
  const [x, y] = shown === undefined ? [0, 0] : placeOf(grid, shown);
  return (
    <div class="squares" ref={host}>
      <div
        class="squares-field"
        style={{ width: `${grid.width}px`, height: `${grid.height}px` }}
        role="group"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move over the squares
        tabIndex={0}
        aria-label={`${countText(count)} children; arrow keys move, Enter opens`}
        onKeyDown={move}
        onBlur={() => setOver(undefined)}
      >
        <canvas
          ref={canvas}
          style={{ width: `${grid.width}px`, height: `${grid.height}px` }}
          onPointerMove={(event) => setOver(at(event))}
          onPointerLeave={() => setOver(undefined)}
          onClick={(event) => {
            const index = at(event);
            if (index !== undefined) onChoose(index);
          }}
        />
        {shown === undefined ? null : (
          <i
            class="squares-cursor"
            style={{
              left: `${x - 2}px`,
              top: `${y - 2}px`,
              width: `${grid.pitch + 2}px`,
              height: `${grid.pitch + 2}px`,
            }}
          />
        )}
      </div>
      <p class="small soft squares-name" aria-live="polite">
        {shown === undefined
          ? "Point at a square for its name; click to open it."
          : `${nameOf(shown)} · ${lookOf(legend[Number(statuses.value[shown])] ?? "").word}`}
      </p>
    </div>
  );
}

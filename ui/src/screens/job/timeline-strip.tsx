/** The whole time of a job in a strip: dragging over it shows a part of it below, and its edges move by arrow keys. */
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { clockText, durationText } from "~/core";
import { averages, resized, type Span, shifted } from "./spans";

const STEPS = 240;
const HEIGHT = 26;
// A hand on the strip is not steadier than this.
const CLICK_PX = 4;

interface StripProps {
  whole: Span;
  shown: Span;
  /** What ran, and what waited. */
  running: readonly Span[];
  waiting: readonly Span[];
  /** While it is dragged. */
  onDraft: (span: Span | undefined) => void;
  /** Chosen; undefined for all of the time. `isStep` if it was a key, of which many follow each other. */
  onChoose: (span: Span | undefined, isStep: boolean) => void;
}

export function Strip({ whole, shown, running, waiting, onDraft, onChoose }: StripProps): JSX.Element {
  const strip = useRef<HTMLDivElement>(null);
  const length = Math.max(1, whole.to - whole.from);
  const isWhole = shown.from <= whole.from && shown.to >= whole.to;
  const percent = (at: number) => Math.min(100, Math.max(0, (100 * (at - whole.from)) / length));

  const grab = (event: PointerEvent) => {
    const box = strip.current?.getBoundingClientRect();
    if (event.button !== 0 || !box) return;
    event.preventDefault();
    const timeAt = (x: number) => whole.from + (length * (x - box.left)) / Math.max(1, box.width);
    const begin = timeAt(event.clientX);
    const grip = (event.target as Element).closest<HTMLElement>("[data-edge]");
    const edge = grip?.dataset.edge as "from" | "to" | undefined;
    grip?.focus({ preventScroll: true });
    const isMoved = !edge && !isWhole && begin >= shown.from && begin <= shown.to;
    let chosen: Span | undefined;
    const element = strip.current as HTMLElement;
    element.setPointerCapture(event.pointerId);
    const onMove = (next: PointerEvent) => {
      if (!chosen && Math.abs(next.clientX - event.clientX) < CLICK_PX) return;
      const at = Math.min(whole.to, Math.max(whole.from, timeAt(next.clientX)));
      if (edge) chosen = resized(shown, whole, edge, at);
      else if (isMoved) chosen = shifted(shown, whole, at - begin);
      else chosen = { from: Math.min(begin, at), to: Math.max(begin, at) };
      onDraft(chosen);
    };
    const onEnd = () => {
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("lostpointercapture", onEnd);
      onDraft(undefined);
      if (chosen) onChoose(chosen, false);
    };
    element.addEventListener("pointermove", onMove);
    element.addEventListener("lostpointercapture", onEnd);
  };

  const onKey = (edge: "from" | "to" | "both") => (event: KeyboardEvent) => {
    const step = length / (event.shiftKey ? 10 : 100);
    const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step }[event.key];
    let next: Span | undefined;
    if (event.key === "Enter" || event.key === "Delete") next = undefined;
    else if (event.key === "Home" || event.key === "End") {
      const end = event.key === "Home" ? whole.from : whole.to;
      next = edge === "both" ? shifted(shown, whole, end - shown.from) : resized(shown, whole, edge, end);
    } else if (by === undefined) return;
    else next = edge === "both" ? shifted(shown, whole, by) : resized(shown, whole, edge, shown[edge] + by);
    event.preventDefault();
    onChoose(next, true);
  };
  const words = (at: number) => `${durationText((at - whole.from) / 1000)} after the beginning, ${clockText(at)}`;
  const counted = (spans: readonly Span[]) => averages(spans, whole.from, whole.to, STEPS);
  const line = (counts: readonly number[], most: number) => {
    const points = counts.map((count, index) => `${index},${HEIGHT - (HEIGHT - 3) * (count / most)}`);
    return `0,${HEIGHT} ${points.join(" ")} ${STEPS - 1},${HEIGHT}`;
  };
  const ran = counted(running);
  const all = counted([...running, ...waiting]);
  const most = Math.max(1, ...all);
  const left = percent(shown.from);
  const right = percent(shown.to);
  const slider = (edge: "from" | "to") => (
    <div
      class="strip-grip"
      data-edge={edge}
      role="slider"
      tabIndex={0}
      aria-label={edge === "from" ? "Beginning of what is shown" : "End of what is shown"}
      aria-valuemin={0}
      aria-valuemax={Math.round(length / 1000)}
      aria-valuenow={Math.round((shown[edge] - whole.from) / 1000)}
      aria-valuetext={words(shown[edge])}
      title="Drag, or move with the arrow keys, with Shift in larger steps; Enter shows the whole time"
      style={{ left: `${edge === "from" ? left : right}%` }}
      onKeyDown={onKey(edge)}
    />
  );
  return (
    <div class="strip-frame">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: for pointers; the sliders in it have the keys */}
      <div class="strip" ref={strip} onPointerDown={grab} onDblClick={() => onChoose(undefined, false)}>
        <svg viewBox={`0 0 ${STEPS - 1} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <polyline class="strip-waiting" points={line(all, most)} />
          <polyline class="strip-running" points={line(ran, most)} />
        </svg>
        <div class="strip-outside" style={{ left: 0, width: `${left}%` }} />
        <div class="strip-outside" style={{ left: `${right}%`, right: 0 }} />
        {isWhole ? null : (
          <div
            class="strip-part"
            role="slider"
            tabIndex={0}
            aria-label="What is shown, moved as a whole"
            aria-valuemin={0}
            aria-valuemax={Math.round(length / 1000)}
            aria-valuenow={Math.round((shown.from - whole.from) / 1000)}
            aria-valuetext={`${durationText((shown.to - shown.from) / 1000)}, from ${words(shown.from)}`}
            style={{ left: `${left}%`, width: `${Math.max(0.2, right - left)}%` }}
            onKeyDown={onKey("both")}
          />
        )}
        {slider("from")}
        {slider("to")}
      </div>
    </div>
  );
}

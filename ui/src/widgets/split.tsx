/** Two parts beside each other, with a bar between them that is moved by pointer or arrow keys. Where there is no room,
 * they are below each other, and there is no bar. */
import type { Signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { persisted } from "../core/preferences";

const LEAST = 20;
const MOST = 75;
const USUAL = 35;
const STEP = 2;
const LARGE_STEP = 10;

const isShare = (value: unknown): value is number => typeof value === "number" && value >= LEAST && value <= MOST;
const shares = new Map<string, Signal<number>>();

/** What the part on the right has of the width, in percent; remembered in this browser. */
function shareOf(name: string): Signal<number> {
  const known = shares.get(name) ?? persisted<number>(`split.${name}`, USUAL, isShare);
  shares.set(name, known);
  return known;
}

/** Whether a media query holds, for what is not a matter of styles only: `useMedia("(min-width: 56rem)")`. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => window.matchMedia(query).matches);
  useEffect(() => {
    const media = window.matchMedia(query);
    const onChange = () => setHolds(media.matches);
    onChange();
    media.addEventListener("change", onChange);
    return () => media.removeEventListener("change", onChange);
  }, [query]);
  return holds;
}

interface SplitProps {
  /** Splits of the same name share what is remembered. */
  name: string;
  /** Of the bar, for those who do not see it. */
  label: string;
  children: ComponentChildren;
  /** Nothing here: the first part has the whole width. */
  side: ComponentChildren;
  /** Where they are below each other, the side comes first. */
  sideFirst?: boolean;
  /** Both parts are wide: they are beside each other only where there is much room. */
  roomy?: boolean;
}

export function Split({ name, label, children, side, sideFirst = false, roomy = false }: SplitProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const grip = useRef<HTMLDivElement>(null);
  const share = shareOf(name);
  const set = (percent: number) => {
    share.value = Math.round(Math.min(MOST, Math.max(LEAST, percent)) * 10) / 10;
  };
  const grab = (event: PointerEvent) => {
    const bar = event.currentTarget as HTMLElement;
    const box = frame.current?.getBoundingClientRect();
    if (event.button !== 0 || !box) return;
    event.preventDefault();
    grip.current?.focus({ preventScroll: true });
    bar.setPointerCapture(event.pointerId);
    const onMove = (next: PointerEvent) => set((100 * (box.right - next.clientX)) / box.width);
    const onEnd = () => {
      bar.removeEventListener("pointermove", onMove);
      bar.removeEventListener("lostpointercapture", onEnd);
    };
    bar.addEventListener("pointermove", onMove);
    bar.addEventListener("lostpointercapture", onEnd);
  };
  const move = (event: KeyboardEvent) => {
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const next = {
      ArrowLeft: share.value + step,
      ArrowRight: share.value - step,
      Home: MOST,
      End: LEAST,
      Enter: USUAL,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    set(next);
  };
  return (
    <div class="split-frame" ref={frame}>
      <div
        class={`split ${side ? "split-both" : ""} ${sideFirst ? "split-side-first" : ""} ${roomy ? "split-roomy" : ""}`}
        style={{ "--split-share": `${share.value}%` }}
      >
        <div class="split-part">{children}</div>
        {side ? (
          <>
            {/* biome-ignore lint/a11y/noStaticElementInteractions: it widens the grip for pointers; the grip has the keys */}
            <div class="split-bar" onPointerDown={grab} onDblClick={() => set(USUAL)}>
              {/* What gets the focus is small and in sight: the page need not jump to show all of a tall bar. */}
              <div
                class="split-grip"
                ref={grip}
                role="separator"
                tabIndex={0}
                aria-orientation="vertical"
                aria-label={label}
                aria-valuenow={Math.round(share.value)}
                aria-valuemin={LEAST}
                aria-valuemax={MOST}
                aria-valuetext={`${Math.round(share.value)} % of the width`}
                title="Drag, or move with the arrow keys; Enter or a double click takes the usual width"
                onKeyDown={move}
              />
            </div>
            <div class="split-part split-side">{side}</div>
          </>
        ) : null}
      </div>
    </div>
  );
}

/** The frame of a map: the canvas that keys can move, tools above it, and a list that says the same in words. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type BaseMap, makeBaseMap } from "./base-map";

interface MapFrameProps {
  /** What the map shows, for screen readers: "Footprints of 12 assets". */
  label: string;
  /** Called once with the map; what comes back runs when it goes. */
  onReady: (base: BaseMap) => undefined | (() => void);
  projection?: string | undefined;
  /** The middle of a projection of a part of the Earth, in degrees. */
  around?: readonly [number, number] | undefined;
  height?: string | undefined;
  /** Zoom with the wheel; off where the page scrolls. */
  wheel?: boolean;
  tools?: ComponentChildren;
  /** Below the map. */
  children?: ComponentChildren;
}

export function MapFrame({
  label,
  onReady,
  projection,
  around,
  height = "24rem",
  wheel = true,
  tools,
  children,
}: MapFrameProps): JSX.Element {
  const target = useRef<HTMLDivElement>(null);
  // a map is made once for its projection
  useEffect(() => {
    if (!target.current) return;
    const base = makeBaseMap(target.current, { projection, around, wheel });
    const end = onReady(base);
    return () => {
      end?.();
      base.end();
    };
  }, [projection]);
  return (
    <div class="map-frame">
      {tools ? <div class="map-tools">{tools}</div> : null}
      <div
        ref={target}
        class="map-canvas"
        style={{ height }}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the map, plus and minus zoom
        tabIndex={0}
        role="application"
        aria-label={`${label}. Arrow keys move the map, plus and minus zoom; the list below says the same in words.`}
      />
      {children}
    </div>
  );
}

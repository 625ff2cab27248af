/** The graph of a job. The server has laid it out; here it is drawn once, and each node follows its own signal. */
import { useComputed, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { countText, type Model, useKeys, useQuery } from "~/core";
import { Button } from "~/widgets";
import { type Camera, fit, reveal, zoom } from "./camera";
import { CriticalPathButton } from "./critical-path";
import { toTheRight } from "./direction";
import { EdgeView, type GraphNode, MiniNode, NodeView } from "./graph-parts";
import { Lineage, timeShares, walk } from "./lineage";
import { failedNodes, type JobStore } from "./store";

export type Structure = Model<"GraphStructure">;

const MINIMAP_FROM = 40;
interface GraphProps {
  structure: Structure;
  /** Without a job the definition is drawn. */
  store?: JobStore | undefined;
  chosen: string;
  onChoose: (node: string) => void;
  height?: number;
}

/** As much as the drawing needs in this width, and no more than a screen. */
function heightFor(structure: Structure, width: number): number {
  const scale = width > 0 ? fit(structure, { width, height: Number.POSITIVE_INFINITY }).scale : 1;
  return Math.round(Math.max(280, Math.min(760, structure.height * scale + 40)));
}

export function Graph({ structure: stored, store, chosen, onChoose, height }: GraphProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const stage = useRef<SVGGElement>(null);
  const eye = useRef<SVGRectElement>(null);
  const camera = useRef<Camera>({ x: 0, y: 0, scale: 1 });
  const moved = useRef(false);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [search, setSearch] = useState("");
  const [critical] = useQuery("path", "");
  const [shares, setShares] = useQuery("share", "");
  const [flow, setFlow] = useQuery("flow", "down");
  const isDown = flow !== "right";
  const structure = useMemo(() => (isDown ? stored : toTheRight(stored)), [stored, isDown]);
  const hovered = useSignal("");
  const lineage = useMemo(() => new Lineage(structure.edges), [structure]);
  const lit = useComputed(() => (hovered.value ? lineage.of(hovered.value) : undefined));
  const path = useComputed(() => new Set(critical && store ? lineage.criticalPath(store.all()) : []));
  const shareOf = useComputed(() => (shares && store ? timeShares(store.all()) : new Map<string, number>()));

  const draw = (next: Camera) => {
    camera.current = next;
    stage.current?.setAttribute("transform", `translate(${next.x} ${next.y}) scale(${next.scale})`);
    if (eye.current) {
      eye.current.setAttribute("x", String(-next.x / next.scale));
      eye.current.setAttribute("y", String(-next.y / next.scale));
      eye.current.setAttribute("width", String(size.width / next.scale));
      eye.current.setAttribute("height", String(size.height / next.scale));
    }
  };
  useLayoutEffect(() => {
    const element = host.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (size.width === 0) return;
    if (!moved.current) draw(fit(structure, size));
    const box = structure.nodes.find((node) => node.id === chosen);
    if (box && moved.current) draw(reveal(camera.current, box, size));
  }, [size, structure, chosen]);

  // Wheel events must be refused, which passive listeners cannot.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      moved.current = true;
      const frame = element.getBoundingClientRect();
      draw(zoom(camera.current, Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  const grab = (event: PointerEvent) => {
    if (event.button !== 0 || (event.target as Element).closest(".graph-node")) return;
    const start = { x: event.clientX - camera.current.x, y: event.clientY - camera.current.y };
    const element = event.currentTarget as Element;
    element.setPointerCapture(event.pointerId);
    const onMove = (next: Event) => {
      moved.current = true;
      const at = next as PointerEvent;
      draw({ ...camera.current, x: at.clientX - start.x, y: at.clientY - start.y });
    };
    element.addEventListener("pointermove", onMove);
    element.addEventListener("pointerup", () => element.removeEventListener("pointermove", onMove), { once: true });
  };
  const step = (factor: number) => {
    moved.current = true;
    draw(zoom(camera.current, factor, size.width / 2, size.height / 2));
  };
  const showAll = () => {
    moved.current = false;
    draw(fit(structure, size));
  };
  const turn = () => {
    moved.current = false;
    setFlow(isDown ? "right" : null);
  };
  const focus = (name: string | undefined) => {
    if (!name) return;
    moved.current = true;
    const box = structure.nodes.find((node) => node.id === name);
    if (box) draw(reveal(camera.current, box, size));
    stage.current?.querySelector<SVGElement>(`[data-node="${CSS.escape(name)}"]`)?.focus({ preventScroll: true });
  };
  const failing = (offset: 1 | -1) => {
    const names = store ? failedNodes(store.all()).map((node) => node.node_id) : [];
    if (names.length === 0) return;
    const next = names[(names.indexOf(chosen) + offset + names.length) % names.length];
    if (next) {
      onChoose(next);
      focus(next);
    }
  };
  useKeys(
    () => [
      { keys: "f", label: "Fit the graph", group: "Graph", run: showAll },
      { keys: "+", label: "Zoom in", group: "Graph", run: () => step(1.25) },
      { keys: "-", label: "Zoom out", group: "Graph", run: () => step(0.8) },
      { keys: "t", label: "Turn the graph: downwards or to the right", group: "Graph", run: turn },
      { keys: "]", label: "Next node that failed", group: "Graph", run: () => failing(1) },
      { keys: "[", label: "Node that failed before", group: "Graph", run: () => failing(-1) },
    ],
    [structure, size, chosen],
  );
  const found = search.trim().toLowerCase();
  const isFound = (node: GraphNode) => found !== "" && `${node.label} ${node.detail}`.toLowerCase().includes(found);
  const matches = found ? structure.nodes.filter(isFound) : [];
  const isLarge = structure.nodes.length > MINIMAP_FROM;
  const order = useMemo(
    () =>
      [...structure.nodes].sort(
        (one, other) => one.layer - other.layer || (isDown ? one.x - other.x : one.y - other.y),
      ),
    [structure],
  );
  return (
    <div class="graph">
      <div class="graph-tools">
        <input
          type="search"
          class="input"
          placeholder="Find a node"
          aria-label="Find a node"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && matches[0]) {
              onChoose(matches[0].id);
              focus(matches[0].id);
            }
          }}
        />
        {found ? <span class="faint small">{countText(matches.length)} found</span> : null}
        <span class="spacer" />
        {store ? (
          <>
            <CriticalPathButton />
            <Button
              look="quiet"
              pressed={shares === "1"}
              onClick={() => setShares(shares ? null : "1")}
              title="The share of the run time that each node took"
            >
              Time share
            </Button>
          </>
        ) : null}
        <Button
          look="quiet"
          icon={isDown ? "right" : "down"}
          onClick={turn}
          title={`The graph runs ${isDown ? "from top to bottom" : "from left to right"}`}
        >
          {isDown ? "Left to right" : "Top to bottom"}
        </Button>
        <span class="graph-zoom">
          <Button look="quiet" icon="submit" label="Zoom in" onClick={() => step(1.25)} />
          <Button look="quiet" label="Zoom out" onClick={() => step(0.8)} class="zoom-out">
            −
          </Button>
          <Button look="quiet" onClick={showAll}>
            Fit
          </Button>
        </span>
      </div>
      <div
        class="graph-view"
        ref={host}
        style={{ height: `${height ?? heightFor(structure, size.width)}px` }}
        onPointerDown={grab}
      >
        <svg
          class="graph-picture"
          role="group"
          aria-label={`Graph of ${structure.title}; arrow keys walk along its edges`}
        >
          <defs>
            <marker
              id="arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="7"
              markerHeight="7"
              orient="auto-start-reverse"
            >
              <path d="M0 0.5 7 4 0 7.5z" class="graph-arrow" />
            </marker>
          </defs>
          <g ref={stage}>
            {structure.edges.map((edge) => (
              <EdgeView
                key={`${edge.source} ${edge.target} ${edge.label}`}
                edge={edge}
                isDown={isDown}
                lit={lit}
                path={path}
                store={store}
              />
            ))}
            {order.map((node, index) => (
              <NodeView
                key={node.id}
                node={node}
                place={`${index + 1} of ${order.length}`}
                waitsFor={lineage.before.get(node.id) ?? []}
                store={store}
                chosen={chosen === node.id}
                isFound={isFound(node)}
                lit={lit}
                path={path}
                shares={shareOf}
                onHover={(isOver) => {
                  hovered.value = isOver ? node.id : "";
                }}
                onChoose={() => onChoose(node.id)}
                onWalk={(key) => focus(walk(structure.nodes, lineage, node.id, key, structure.direction))}
              />
            ))}
          </g>
        </svg>
        {isLarge ? (
          <svg class="minimap" viewBox={`0 0 ${structure.width} ${structure.height}`} aria-hidden="true">
            {structure.nodes.map((node) => (
              <MiniNode key={node.id} node={node} store={store} />
            ))}
            <rect ref={eye} class="minimap-eye" />
          </svg>
        ) : null}
      </div>
    </div>
  );
}

/** The graph of a job. The server has laid it out; here it is drawn once, and each node follows its own signal. */
import { useComputed, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { countText, durationText, type Model, now, useKeys, useQuery } from "~/core";
import { Button, Icon, lookOf } from "~/widgets";
import { type Camera, fit, reveal, zoom } from "./camera";
import { Lineage, timeShares, walk } from "./lineage";
import { failedNodes, type JobStore, type NodeOverview } from "./store";

type GraphNode = Model<"GraphNode">;
type GraphEdge = Model<"GraphEdge">;
export type Structure = Model<"GraphStructure">;

const MINIMAP_FROM = 40;
const KIND_ICONS: Record<string, string> = {
  task: "M3.5 3.5h9v9h-9z",
  conditional: "M8 2.5 13.5 8 8 13.5 2.5 8z",
  fan_out: "M3 8h3M6 8l5-4.5M6 8h5M6 8l5 4.5",
  fan_in: "M13 8h-3M10 8 5 3.5M10 8H5M10 8l-5 4.5",
  approval: "M8 2.5 13 4.5v4c0 2.8-2.2 4.5-5 5.5-2.8-1-5-2.7-5-5.5v-4z",
  workflow: "M3 3h4v3H3zM9 10h4v3H9zM5 6v2.5a1 1 0 0 0 1 1h5",
};
const KIND_WORDS: Record<string, string> = { fan_out: "fan-out", fan_in: "fan-in", workflow: "sub-workflow" };

interface GraphProps {
  structure: Structure;
  /** Without a job the definition is drawn. */
  store?: JobStore | undefined;
  chosen: string;
  onChoose: (node: string) => void;
  height?: number;
}

function curve(edge: GraphEdge): string {
  const points = edge.points;
  return points
    .map(([x, y], index) => {
      if (index === 0) return `M${x} ${y}`;
      const [fromX, fromY] = points[index - 1] ?? [x, y];
      if (fromX === x || fromY === y) return `L${x} ${y}`;
      const middle = (fromY + y) / 2;
      return `C${fromX} ${middle} ${x} ${middle} ${x} ${y}`;
    })
    .join("");
}

export function Graph({ structure, store, chosen, onChoose, height }: GraphProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const stage = useRef<SVGGElement>(null);
  const eye = useRef<SVGRectElement>(null);
  const camera = useRef<Camera>({ x: 0, y: 0, scale: 1 });
  const moved = useRef(false);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [search, setSearch] = useState("");
  const [critical, setCritical] = useQuery("path", "");
  const [shares, setShares] = useQuery("share", "");
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
    () => [...structure.nodes].sort((one, other) => one.layer - other.layer || one.x - other.x),
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
            <Button
              look="quiet"
              pressed={critical === "1"}
              onClick={() => setCritical(critical ? null : "1")}
              title="The chain that decided how long the job took"
            >
              Critical path
            </Button>
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
        <Button look="quiet" icon="submit" label="Zoom in" onClick={() => step(1.25)} />
        <Button look="quiet" label="Zoom out" onClick={() => step(0.8)} class="zoom-out">
          −
        </Button>
        <Button look="quiet" onClick={showAll}>
          Fit
        </Button>
      </div>
      <div
        class="graph-view"
        ref={host}
        style={{ height: `${height ?? Math.max(280, Math.min(620, structure.height + 40))}px` }}
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

function MiniNode({ node, store }: { node: GraphNode; store?: JobStore | undefined }): JSX.Element {
  const status = store?.node(node.id)?.value.status ?? "pending";
  return (
    <rect
      class={`minimap-node tone-${lookOf(status).tone}`}
      x={node.x}
      y={node.y}
      width={node.width}
      height={node.height}
    />
  );
}

interface Shown<T> {
  readonly value: T;
}

function EdgeView(props: {
  edge: GraphEdge;
  lit: Shown<Set<string> | undefined>;
  path: Shown<Set<string>>;
  store?: JobStore | undefined;
}): JSX.Element {
  const { edge, lit, path, store } = props;
  const isLit = lit.value?.has(edge.source) && lit.value.has(edge.target);
  const isDim = lit.value !== undefined && !isLit;
  const isCritical = path.value.has(edge.source) && path.value.has(edge.target);
  const isActive = store?.node(edge.target)?.value.status === "running";
  const isSkipped = store?.node(edge.target)?.value.status === "skipped";
  const classes = [
    isLit && "is-lit",
    isDim && "is-dim",
    isCritical && "is-critical",
    isActive && "is-active",
    isSkipped && "is-skipped",
  ];
  return (
    <g class={`graph-edge edge-${edge.kind} ${classes.filter(Boolean).join(" ")}`}>
      <path d={curve(edge)} marker-end="url(#arrow)" />
      {edge.label && edge.label_at ? (
        <text x={edge.label_at[0]} y={edge.label_at[1]} text-anchor="middle" dominant-baseline="middle">
          {edge.label}
        </text>
      ) : null}
    </g>
  );
}

interface NodeViewProps {
  node: GraphNode;
  place: string;
  waitsFor: readonly string[];
  store?: JobStore | undefined;
  chosen: boolean;
  isFound: boolean;
  lit: Shown<Set<string> | undefined>;
  path: Shown<Set<string>>;
  shares: Shown<Map<string, number>>;
  onHover: (isOver: boolean) => void;
  onChoose: () => void;
  onWalk: (key: string) => void;
}

function NodeView(props: NodeViewProps): JSX.Element {
  const { node, store, chosen, lit, path, shares } = props;
  // The node may not exist yet; `order` tells when it does.
  if (store) void store.order.value;
  const state = store?.node(node.id)?.value;
  const status = state?.status ?? "pending";
  const look = lookOf(status);
  const isPort = node.type === "start" || node.type === "end";
  const isDim = lit.value !== undefined && !lit.value.has(node.id);
  const share = shares.value.get(node.id);
  const classes = [
    chosen && "is-chosen",
    isDim && "is-dim",
    path.value.has(node.id) && "is-critical",
    props.isFound && "is-found",
    status === "skipped" && "is-skipped",
    status === "running" && "is-running",
  ];
  const kind = KIND_WORDS[node.type] ?? node.type;
  const waits = props.waitsFor.length ? `, depends on ${props.waitsFor.join(", ")}` : "";
  const label = `${props.place}: ${node.label}, ${kind}${store ? `, ${look.word}` : ""}${waits}`;
  const right = node.x + node.width;
  return (
    <g
      class={`graph-node kind-${node.type} tone-${store ? look.tone : "off"} ${classes.filter(Boolean).join(" ")}`}
      data-node={node.id}
      data-status={store ? status : undefined}
      role="button"
      tabIndex={0}
      aria-label={label}
      aria-current={chosen ? "true" : undefined}
      onPointerEnter={() => props.onHover(true)}
      onPointerLeave={() => props.onHover(false)}
      onFocus={() => props.onHover(true)}
      onBlur={() => props.onHover(false)}
      onClick={props.onChoose}
      onKeyDown={(event) => {
        if (event.key.startsWith("Arrow")) props.onWalk(event.key);
        else if (event.key === "Enter" || event.key === " ") props.onChoose();
        else return;
        event.preventDefault();
      }}
    >
      <title>{[node.label, node.detail, node.description, state ? look.word : ""].filter(Boolean).join("\n")}</title>
      <rect
        class="node-box"
        x={node.x}
        y={node.y}
        width={node.width}
        height={node.height}
        rx={isPort ? node.height / 2 : 8}
      />
      {isPort ? (
        <text
          class="node-port"
          x={node.x + node.width / 2}
          y={node.y + node.height / 2}
          text-anchor="middle"
          dominant-baseline="central"
        >
          {node.label}
        </text>
      ) : (
        <>
          <path
            class="node-kind"
            transform={`translate(${node.x + 12} ${node.y + 10})`}
            d={KIND_ICONS[node.type] ?? KIND_ICONS.task}
          />
          <text class="node-label" x={node.x + 36} y={node.y + (node.detail ? 21 : node.height / 2 + 4)}>
            {node.label}
          </text>
          <text class="node-detail" x={node.x + 36} y={node.y + 37}>
            {node.detail}
          </text>
          {state?.children && state.children.total > 0 ? <ChildrenBar node={node} counts={state.children} /> : null}
          {state ? (
            <g class="node-badge" transform={`translate(${right - 10} ${node.y - 1})`}>
              <circle r="9" />
              <g transform="translate(-6.5 -6.5)">
                <Icon name={look.icon} size={13} />
              </g>
            </g>
          ) : null}
          {state ? <NodeTime node={node} state={state} share={share} /> : null}
        </>
      )}
    </g>
  );
}

function NodeTime({
  node,
  state,
  share,
}: {
  node: GraphNode;
  state: NodeOverview;
  share: number | undefined;
}): JSX.Element | null {
  const seconds =
    state.status === "running" && state.started_at
      ? Math.floor((now.value - Date.parse(state.started_at)) / 1000)
      : isRun(state)
        ? state.duration_seconds
        : null;
  const words = [
    share !== undefined ? `${share < 1 && share > 0 ? "<1" : Math.round(share)} %` : "",
    seconds === null || seconds === undefined ? "" : durationText(Math.max(0, seconds)),
    state.attempt > 1 ? `attempt ${state.attempt}` : "",
  ];
  const text = words.filter(Boolean).join(" · ");
  if (!text) return null;
  return (
    <text class="node-time" x={node.x + node.width - 8} y={node.y + node.height + 13} text-anchor="end">
      {text}
    </text>
  );
}

const isRun = (state: NodeOverview): boolean =>
  (state.status === "completed" || state.status === "failed") && state.task_id !== null && !state.taken_over;

function ChildrenBar({ node, counts }: { node: GraphNode; counts: Model<"NodeCounts"> }): JSX.Element {
  const parts: [string, number][] = [
    ["good", counts.completed],
    ["bad", counts.failed],
    ["off", counts.skipped + counts.cancelled],
    ["active", counts.running],
    ["waiting", counts.dispatched + counts.ready],
  ];
  const whole = node.width - 16;
  let x = node.x + 8;
  const words = [
    `${countText(counts.completed)} ✓`,
    counts.failed ? `${countText(counts.failed)} ✗` : "",
    counts.running ? `${countText(counts.running)} ▶` : "",
    counts.total - counts.completed - counts.failed - counts.running - counts.skipped - counts.cancelled
      ? `${countText(counts.total - counts.completed - counts.failed - counts.running - counts.skipped - counts.cancelled)} waiting`
      : "",
  ];
  return (
    <g class="node-children">
      <rect class="children-rail" x={x} y={node.y + node.height - 8} width={whole} height="4" rx="2" />
      {parts.map(([tone, count]) => {
        const width = (whole * count) / Math.max(1, counts.total);
        const at = x;
        x += width;
        return width > 0 ? (
          <rect
            key={tone}
            class={`children-part tone-${tone}`}
            x={at}
            y={node.y + node.height - 8}
            width={Math.max(1, width)}
            height="4"
          />
        ) : null;
      })}
      <text class="node-time" x={node.x + 8} y={node.y + node.height + 13}>
        {words.filter(Boolean).join("  ")}
      </text>
    </g>
  );
}

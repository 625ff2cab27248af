/** The parts of a drawn graph: nodes with their state and time, edges, and the small copies in the overview map. */
import type { JSX } from "preact";
import { countText, durationText, type Model, now } from "~/core";
import { Icon, lookOf } from "~/widgets";
import type { JobStore, NodeOverview } from "./store";

export type GraphNode = Model<"GraphNode">;
export type GraphEdge = Model<"GraphEdge">;

const KIND_ICONS: Record<string, string> = {
  task: "M3.5 3.5h9v9h-9z",
  conditional: "M8 2.5 13.5 8 8 13.5 2.5 8z",
  fan_out: "M3 8h3M6 8l5-4.5M6 8h5M6 8l5 4.5",
  fan_in: "M13 8h-3M10 8 5 3.5M10 8H5M10 8l-5 4.5",
  approval: "M8 2.5 13 4.5v4c0 2.8-2.2 4.5-5 5.5-2.8-1-5-2.7-5-5.5v-4z",
  workflow: "M3 3h4v3H3zM9 10h4v3H9zM5 6v2.5a1 1 0 0 0 1 1h5",
};
const KIND_WORDS: Record<string, string> = { fan_out: "fan-out", fan_in: "fan-in", workflow: "sub-workflow" };

// Of the second line of a node, in 10.5 px of a monospaced font.
const DETAIL_ADVANCE = 6.35;

/** Edges leave and arrive in the direction in which the graph runs. */
function curve(edge: GraphEdge, isDown: boolean): string {
  const points = edge.points;
  return points
    .map(([x, y], index) => {
      if (index === 0) return `M${x} ${y}`;
      const [fromX, fromY] = points[index - 1] ?? [x, y];
      if (fromX === x || fromY === y) return `L${x} ${y}`;
      const middle = isDown ? (fromY + y) / 2 : (fromX + x) / 2;
      return isDown ? `C${fromX} ${middle} ${x} ${middle} ${x} ${y}` : `C${middle} ${fromY} ${middle} ${y} ${x} ${y}`;
    })
    .join("");
}

export function MiniNode({ node, store }: { node: GraphNode; store?: JobStore | undefined }): JSX.Element {
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

export function EdgeView(props: {
  edge: GraphEdge;
  isDown: boolean;
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
      <path d={curve(edge, props.isDown)} marker-end="url(#arrow)" />
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

export function NodeView(props: NodeViewProps): JSX.Element {
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
            {detailOf(node)}
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

/** As much of the second line as its box has room for; the tooltip has all of it. */
function detailOf(node: GraphNode): string {
  const most = Math.max(1, Math.floor((node.width - 36 - 8) / DETAIL_ADVANCE));
  return node.detail.length <= most ? node.detail : `${node.detail.slice(0, most - 1)}…`;
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

/** When what waited and ran: a bar per node or per worker, attempts as they were, also while the job runs. */
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { api, clockText, durationText, now, ok, Resolved, setQuery, useKeys, useQuery, useResource } from "~/core";
import { Button, Empty, useMedia } from "~/widgets";
import { CriticalPathButton } from "./critical-path";
import { Lineage } from "./lineage";
import { gapsOf, readWindow, type Span, ticks, union, windowText, zoomed } from "./spans";
import type { JobStore } from "./store";
import { readTasks } from "./tasks";
import {
  type Arrangement,
  arranged,
  type Bar,
  type Children,
  ms,
  nodeRow,
  type Row,
  type Task,
  workerRows,
} from "./timeline-rows";
import { Strip } from "./timeline-strip";

const LANE_PX = 22;
/** No bar is narrower. */
const LEAST_PX = 3;

async function readAll(
  store: JobStore,
  signal: AbortSignal,
): Promise<{ tasks: Task[]; isWhole: boolean; children: Map<string, Children> }> {
  const fanOuts = (store.overview.peek()?.nodes ?? []).filter((node) => node.children && node.children.total > 0);
  const [tasks, ...columns] = await Promise.all([
    readTasks(store.jobId, [], signal),
    ...fanOuts.slice(0, 6).map((node) => {
      const path = { job_id: store.jobId, node_id: node.node_id };
      return ok(api.GET("/api/v1/jobs/{job_id}/nodes/{node_id}/children", { params: { path }, signal }));
    }),
  ]);
  return { ...tasks, children: new Map(columns.map((column) => [column.node_id, column])) };
}

export function Timeline({ store }: { store: JobStore }): JSX.Element {
  const isOpen = store.isOpen.value;
  const data = useResource((signal) => readAll(store, signal), [store, isOpen], {
    live: isOpen ? [`job:${store.jobId}`] : [],
    clears: false,
  });
  return (
    <section class="card" aria-label="Timeline">
      <Resolved resource={data} what="the timeline">
        {(read) => <Chart store={store} tasks={read.tasks} isWhole={read.isWhole} children_={read.children} />}
      </Resolved>
    </section>
  );
}

const ARRANGEMENTS: readonly (readonly [Arrangement, string, string])[] = [
  ["clock", "As it was", "By the clock, with what waited"],
  ["waterfall", "Without waiting", "Each node as soon as what it depends on is done: how fast the job could be"],
  ["flat", "From zero", "All nodes from the same moment: what takes longest"],
];

interface ChartProps {
  store: JobStore;
  tasks: Task[];
  isWhole: boolean;
  children_: Map<string, Children>;
}

function Chart({ store, tasks, isWhole, children_ }: ChartProps): JSX.Element {
  const [lanes, setLanes] = useQuery("lanes", "node");
  const [zoom, setZoom] = useQuery("time", "");
  const [order] = useQuery("order", "clock");
  const [critical] = useQuery("path", "");
  const [draft, setDraft] = useState<Span>();
  const present = store.isOpen.value ? now.value : 0;
  const nodes = store.all();
  const byNode = useMemo(() => {
    const map = new Map<string, Task[]>();
    for (const task of tasks) map.set(task.node_id, [...(map.get(task.node_id) ?? []), task]);
    return map;
  }, [tasks]);
  const edges = store.structure.value?.edges;
  const lineage = useMemo(() => new Lineage(edges ?? []), [edges]);
  const job = store.overview.value;
  const until = present || (ms(job?.completed_at) ?? Date.now());
  const nodeRows = nodes
    .map((node) => nodeRow(node, byNode.get(node.node_id) ?? [], children_.get(node.node_id), until))
    .filter((row) => row !== undefined);
  const begin = ms(job?.started_at) ?? ms(job?.created_at) ?? 0;
  const arrangement = ARRANGEMENTS.find(([id]) => id === order && lanes !== "worker")?.[0] ?? "clock";
  const rows = lanes === "worker" ? workerRows(tasks, until) : arranged(nodeRows, arrangement, lineage.before, begin);
  const bars = rows.flatMap((row) => row.bars);
  const whole: Span = {
    from: Math.min(begin, ...bars.map((bar) => bar.from)),
    to: Math.max(begin + 1, ...bars.map((bar) => bar.to), ...(arrangement === "clock" ? [until] : [])),
  };
  const chosen = readWindow(zoom, whole);
  const shown = draft ?? chosen ?? whole;
  const choose = (span: Span | undefined, isStep: boolean) =>
    setZoom(span ? windowText(span, whole) : null, { replace: isStep });
  useKeys(
    () => [
      { keys: "+", label: "Show less time", group: "Timeline", run: () => choose(zoomed(shown, whole, 0.5), true) },
      { keys: "-", label: "Show more time", group: "Timeline", run: () => choose(zoomed(shown, whole, 2), true) },
      { keys: "f", label: "Show the whole time", group: "Timeline", run: () => choose(undefined, true) },
    ],
    [zoom, draft, whole.from, whole.to],
  );
  if (bars.length === 0) {
    return (
      <Empty title="Nothing has started yet" icon="clock">
        A bar appears here for each node as soon as it waits for a worker.
      </Empty>
    );
  }
  const isWait = (bar: Bar) => bar.kind === "wait";
  const path = new Set(critical && lanes !== "worker" ? lineage.criticalPath(nodes) : []);
  return (
    <div class="timeline">
      <div class="pane-tools row">
        <span class="row" role="group" aria-label="Lanes">
          <Button look="quiet" pressed={lanes === "node"} onClick={() => setLanes(null)}>
            By node
          </Button>
          <Button look="quiet" pressed={lanes === "worker"} onClick={() => setLanes("worker")}>
            By worker
          </Button>
        </span>
        {lanes === "worker" ? null : (
          <>
            <label class="timeline-order small soft">
              Order{" "}
              <select
                class="input"
                value={arrangement}
                onChange={(event) => setQuery({ order: orderOf(event.currentTarget.value), time: null })}
              >
                {ARRANGEMENTS.map(([id, words, title]) => (
                  <option key={id} value={id} title={title}>
                    {words}
                  </option>
                ))}
              </select>
            </label>
            <CriticalPathButton />
          </>
        )}
        <span class="spacer" />
        <span class="timeline-legend small soft">
          <i class="bar-wait" /> waiting <i class="bar-run" /> running <i class="bar-retry" /> retry{" "}
          <i class="bar-failed" /> failed attempt <i class="bar-lost" /> worker lost
        </span>
      </div>
      {arrangement === "clock" ? (
        <Readout rows={nodeRows} whole={whole} />
      ) : (
        <p class="small soft timeline-gaps">{ARRANGEMENTS.find(([id]) => id === arrangement)?.[2]}.</p>
      )}
      <div class="timeline-window">
        <Strip
          whole={whole}
          shown={shown}
          running={bars.filter((bar) => !isWait(bar))}
          waiting={bars.filter(isWait)}
          onDraft={setDraft}
          onChoose={choose}
        />
        <p class="small soft" role="status">
          {chosen
            ? `${durationText((chosen.to - chosen.from) / 1000)} of ${durationText((whole.to - whole.from) / 1000)} shown`
            : "Drag over the strip to look at a part of the time."}
        </p>
        {chosen ? (
          <Button look="quiet" icon="cross" onClick={() => choose(undefined, false)}>
            Whole time
          </Button>
        ) : null}
      </div>
      <Bars rows={rows} shown={shown} origin={whole.from} path={path} onZoom={(span) => choose(span, false)} />
      {isWhole ? null : (
        <p class="pane-note small faint">
          Attempts of the newest {tasks.length} tasks; fan-outs show all of their children.
        </p>
      )}
    </div>
  );
}

const orderOf = (text: string): string | null => (text === "clock" ? null : text);

/** Where the time went, in a sentence. Workers know nothing of what waits, so it is about nodes. */
function Readout({ rows, whole }: { rows: readonly Row[]; whole: Span }): JSX.Element {
  const bars = rows.flatMap((row) => row.bars);
  const isWait = (bar: Bar) => bar.kind === "wait";
  const { running, waiting, idle, longest } = gapsOf(
    whole,
    union(bars.filter((bar) => !isWait(bar))),
    bars.filter(isWait),
  );
  return (
    <p class="small soft timeline-gaps">
      Something ran {Math.round(running)} % of {durationText((whole.to - whole.from) / 1000)}; {Math.round(waiting)} %
      was waiting for a worker or a retry
      {Math.round(idle) > 0 ? `, ${Math.round(idle)} % was neither` : ""}.
      {longest && longest.to - longest.from > (whole.to - whole.from) / 50
        ? ` The longest gap is ${durationText((longest.to - longest.from) / 1000)}, at ${clockText(longest.from)}.`
        : ""}
    </p>
  );
}

/** A mark as precise as its neighbours are apart: `1m 30s`, `0.25 s`, `61.250 s`. */
function tickText(seconds: number, step: number): string {
  if (seconds === 0) return "0";
  if (step < 1 && seconds + step >= 1) return `${seconds.toFixed(Math.ceil(-Math.log10(step) - 1e-9))} s`;
  return durationText(seconds)
    .replace(/\.0 s$/, " s")
    .replace(/ 0s$/, "");
}

interface BarsProps {
  rows: readonly Row[];
  shown: Span;
  origin: number;
  /** Nodes that decided how long the job took. */
  path: ReadonlySet<string>;
  onZoom: (span: Span) => void;
}

function Bars({ rows, shown, origin, path, onZoom }: BarsProps): JSX.Element {
  const [brush, setBrush] = useState<Span>();
  const field = useRef<HTMLDivElement>(null);
  const isNarrow = useMedia("(max-width: 40rem)");
  const length = Math.max(1, shown.to - shown.from);
  const percent = (at: number) => (100 * (at - shown.from)) / length;
  const marks = ticks((shown.from - origin) / 1000, (shown.to - origin) / 1000, isNarrow ? 3 : 8);
  const grab = (event: PointerEvent) => {
    const element = field.current;
    if (event.button !== 0 || !element || (event.target as Element).closest(".gantt-bar")) return;
    const box = element.getBoundingClientRect();
    const timeAt = (x: number) =>
      Math.min(shown.to, Math.max(shown.from, shown.from + (length * (x - box.left)) / Math.max(1, box.width)));
    const begin = timeAt(event.clientX);
    let chosen: Span | undefined;
    element.setPointerCapture(event.pointerId);
    const onMove = (next: PointerEvent) => {
      const at = timeAt(next.clientX);
      chosen = { from: Math.min(begin, at), to: Math.max(begin, at) };
      setBrush(chosen);
    };
    const onEnd = () => {
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("lostpointercapture", onEnd);
      setBrush(undefined);
      if (chosen && chosen.to - chosen.from > length / 100) onZoom(chosen);
    };
    element.addEventListener("pointermove", onMove);
    element.addEventListener("lostpointercapture", onEnd);
  };
  return (
    <div class="gantt">
      <div class="gantt-names" aria-hidden="true">
        {rows.map((row) => (
          <div
            key={row.id}
            class={`gantt-name mono ${path.has(row.id) ? "is-critical" : ""}`}
            style={{ height: `${row.lanes * LANE_PX}px` }}
            title={row.id}
          >
            {row.label}
          </div>
        ))}
      </div>
      <div class="gantt-field" ref={field} onPointerDown={grab}>
        {marks.map((seconds) => (
          <div key={seconds} class="gantt-tick" style={{ left: `${percent(origin + seconds * 1000)}%` }}>
            <span>{tickText(seconds, (marks[1] ?? 0) - (marks[0] ?? 0))}</span>
          </div>
        ))}
        <div class="gantt-rows">
          {rows.map((row) => (
            <div
              key={row.id}
              class={`gantt-row ${path.has(row.id) ? "is-critical" : ""}`}
              style={{ height: `${row.lanes * LANE_PX}px` }}
              role="group"
              aria-label={path.has(row.id) ? `${row.id}, on the critical path` : row.id}
            >
              {row.bars.map((bar, index) => {
                const left = Math.max(0, percent(bar.from));
                const right = Math.min(100, percent(bar.to));
                if (right <= 0 || left >= 100) return null;
                return (
                  <button
                    key={index}
                    type="button"
                    class={`gantt-bar bar-${bar.kind}`}
                    title={bar.title}
                    aria-label={bar.title}
                    tabIndex={bar.kind === "wait" ? -1 : 0}
                    style={{
                      // What is shorter than that at the very end is seen too.
                      left: `min(${left}%, 100% - ${LEAST_PX}px)`,
                      width: `max(${LEAST_PX}px, ${right - left}%)`,
                      top: `${(row.laneOf[index] ?? 0) * LANE_PX + 3}px`,
                    }}
                    onClick={() =>
                      setQuery({ tab: bar.kind === "band" ? "fan-out" : null, node: bar.node }, { replace: false })
                    }
                  >
                    {bar.kind === "band" && row.line ? <Concurrency line={row.line} /> : null}
                  </button>
                );
              })}
            </div>
          ))}
        </div>
        {brush ? (
          <div
            class="gantt-brush"
            style={{ left: `${percent(brush.from)}%`, width: `${percent(brush.to) - percent(brush.from)}%` }}
          />
        ) : null}
      </div>
    </div>
  );
}

function Concurrency({ line }: { line: readonly number[] }): JSX.Element {
  const most = Math.max(1, ...line);
  const points = line.map((count, index) => `${index},${16 - (15 * count) / most}`).join(" ");
  return (
    <svg
      class="gantt-line"
      viewBox={`0 0 ${Math.max(1, line.length - 1)} 16`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={`0,16 ${points} ${line.length - 1},16`} />
    </svg>
  );
}

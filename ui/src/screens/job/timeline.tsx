/** When what waited and ran: a bar per node or per worker, attempts as they were, also while the job runs. */
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { api, clockText, durationText, type Model, now, ok, Resolved, setQuery, useQuery, useResource } from "~/core";
import { Button, Empty, useMedia } from "~/widgets";
import { concurrency, gapsOf, pack, type Span, ticks, union } from "./spans";
import { isSettled, type JobStore, type NodeOverview } from "./store";
import { readTasks } from "./tasks";

type Task = Model<"TaskSummary">;
type Children = Model<"FanOutChildren">;

interface Bar extends Span {
  kind: "wait" | "run" | "failed" | "lost" | "band" | "skipped";
  title: string;
  node: string;
}

interface Row {
  id: string;
  label: string;
  bars: Bar[];
  lanes: number;
  laneOf: number[];
  /** How many children ran at once, along the band. */
  line?: number[];
  node?: string;
}

const LANE_PX = 22;

const ms = (text: string | null | undefined): number | undefined => (text ? Date.parse(text) : undefined);

function attemptBars(tasks: readonly Task[], present: number): Bar[] {
  return tasks.flatMap((task) => {
    const from = ms(task.started_at ?? task.claimed_at);
    if (from === undefined) return [];
    const to =
      task.duration_ms !== null && task.duration_ms !== undefined
        ? from + task.duration_ms
        : (ms(task.reported_at) ?? present);
    const kind = task.status === "failed" ? "failed" : task.status === "lost" ? "lost" : "run";
    const words = task.error_message ? `: ${task.error_message}` : "";
    return [
      {
        kind,
        from,
        to: Math.max(to, from + 1),
        node: task.node_id,
        title: `${task.node_id}, attempt ${task.attempt}, ${task.status}, ${durationText((to - from) / 1000)}${words}`,
      } as Bar,
    ];
  });
}

function nodeRow(
  node: NodeOverview,
  tasks: readonly Task[],
  children: Children | undefined,
  present: number,
): Row | undefined {
  const bars: Bar[] = [];
  const started = ms(node.started_at);
  const ready = ms(node.ready_at) ?? ms(node.dispatched_at);
  const end = ms(node.completed_at) ?? (isSettled(node) ? undefined : present);
  if (node.type === "start" || node.type === "end" || (ready === undefined && started === undefined)) return undefined;
  const row = { id: node.node_id, label: node.node_id, node: node.node_id };
  if (children?.origin_at) {
    const origin = Date.parse(children.origin_at);
    const spans = children.started_ms.flatMap((from, index) => {
      if (from === null) return [];
      const took = children.duration_ms[index];
      return [{ from: origin + from, to: origin + from + (took ?? Math.max(0, present - origin - from)) }];
    });
    if (spans.length) {
      const from = spans.reduce((least, span) => Math.min(least, span.from), Number.POSITIVE_INFINITY);
      const to = spans.reduce((most, span) => Math.max(most, span.to), 0);
      const line = concurrency(spans, from, to, 200);
      const title = `${node.node_id}: ${spans.length} children, at most ${Math.max(...line)} at once, ${durationText((to - from) / 1000)}`;
      if (ready !== undefined && from > ready)
        bars.push({
          kind: "wait",
          from: ready,
          to: from,
          node: node.node_id,
          title: `${node.node_id}: waited ${durationText((from - ready) / 1000)}`,
        });
      bars.push({ kind: "band", from, to, node: node.node_id, title });
      return { ...row, bars, lanes: 1, laneOf: bars.map(() => 0), line };
    }
  }
  const attempts = attemptBars(tasks, present);
  const first = attempts.length ? Math.min(...attempts.map((bar) => bar.from)) : started;
  if (ready !== undefined && (first ?? end ?? present) > ready) {
    bars.push({
      kind: "wait",
      from: ready,
      to: first ?? end ?? present,
      node: node.node_id,
      title: `${node.node_id}: waited ${durationText(((first ?? end ?? present) - ready) / 1000)}`,
    });
  }
  if (attempts.length) {
    bars.push(...attempts);
    // Between two attempts it waits for its retry.
    const sorted = [...attempts].sort((one, other) => one.from - other.from);
    for (const [index, bar] of sorted.entries()) {
      const next = sorted[index + 1];
      if (next && next.from > bar.to)
        bars.push({
          kind: "wait",
          from: bar.to,
          to: next.from,
          node: node.node_id,
          title: `${node.node_id}: waited ${durationText((next.from - bar.to) / 1000)} for the next attempt`,
        });
    }
  } else if (started !== undefined && end !== undefined) {
    bars.push({
      kind: node.status === "failed" ? "failed" : "run",
      from: started,
      to: Math.max(end, started + 1),
      node: node.node_id,
      title: `${node.node_id}: ${durationText((end - started) / 1000)}`,
    });
  }
  return bars.length ? { ...row, bars, lanes: 1, laneOf: bars.map(() => 0) } : undefined;
}

function workerRows(tasks: readonly Task[], present: number): Row[] {
  const byWorker = new Map<string, Task[]>();
  for (const task of tasks)
    if (task.worker_id) byWorker.set(task.worker_id, [...(byWorker.get(task.worker_id) ?? []), task]);
  return [...byWorker].map(([worker, own]) => {
    const bars = attemptBars(own, present);
    return { id: worker, label: worker.slice(-8), bars, ...pack(bars) };
  });
}

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

function Chart({
  store,
  tasks,
  isWhole,
  children_,
}: {
  store: JobStore;
  tasks: Task[];
  isWhole: boolean;
  children_: Map<string, Children>;
}): JSX.Element {
  const [lanes, setLanes] = useQuery("lanes", "node");
  const [zoom, setZoom] = useQuery("time", "");
  const present = store.isOpen.value ? now.value : 0;
  const nodes = store.all();
  const byNode = useMemo(() => {
    const map = new Map<string, Task[]>();
    for (const task of tasks) map.set(task.node_id, [...(map.get(task.node_id) ?? []), task]);
    return map;
  }, [tasks]);
  const job = store.overview.value;
  const until = present || (ms(job?.completed_at) ?? Date.now());
  const nodeRows = nodes
    .map((node) => nodeRow(node, byNode.get(node.node_id) ?? [], children_.get(node.node_id), until))
    .filter((row) => row !== undefined);
  const rows = lanes === "worker" ? workerRows(tasks, until) : nodeRows;
  const begin = ms(job?.started_at) ?? ms(job?.created_at) ?? 0;
  const bars = rows.flatMap((row) => row.bars);
  const end = Math.max(begin + 1, until, ...bars.map((bar) => bar.to));
  const whole = { from: Math.min(begin, ...bars.map((bar) => bar.from)), to: end };
  const parts = /^(\d+)-(\d+)$/.exec(zoom);
  const shown: Span = parts ? { from: whole.from + Number(parts[1]), to: whole.from + Number(parts[2]) } : whole;
  if (bars.length === 0) {
    return (
      <Empty title="Nothing has started yet" icon="clock">
        A bar appears here for each node as soon as it waits for a worker.
      </Empty>
    );
  }
  const isWait = (bar: Bar) => bar.kind === "wait";
  // Workers know nothing of what waits.
  const ofNodes = nodeRows.flatMap((row) => row.bars);
  const gaps = gapsOf(whole, union(ofNodes.filter((bar) => !isWait(bar))), ofNodes.filter(isWait));
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
        <p class="small soft timeline-gaps">
          Something ran {Math.round(gaps.running)} % of {durationText((whole.to - whole.from) / 1000)};{" "}
          {Math.round(gaps.waiting)} % was waiting for a worker or a retry
          {Math.round(gaps.idle) > 0 ? `, ${Math.round(gaps.idle)} % was neither` : ""}.
          {gaps.longest && gaps.longest.to - gaps.longest.from > (whole.to - whole.from) / 50
            ? ` The longest gap is ${durationText((gaps.longest.to - gaps.longest.from) / 1000)}, at ${clockText(gaps.longest.from)}.`
            : ""}
        </p>
        <span class="spacer" />
        <span class="timeline-legend small soft">
          <i class="bar-wait" /> waiting <i class="bar-run" /> running <i class="bar-failed" /> failed attempt{" "}
          <i class="bar-lost" /> worker lost
        </span>
        {parts ? (
          <Button look="quiet" onClick={() => setZoom(null)}>
            Whole time
          </Button>
        ) : null}
      </div>
      <Bars
        rows={rows as Row[]}
        shown={shown}
        origin={whole.from}
        onZoom={(span) => setZoom(`${Math.round(span.from - whole.from)}-${Math.round(span.to - whole.from)}`)}
      />
      {isWhole ? null : (
        <p class="pane-note small faint">
          Attempts of the newest {tasks.length} tasks; fan-outs show all of their children.
        </p>
      )}
    </div>
  );
}

function Bars({
  rows,
  shown,
  origin,
  onZoom,
}: {
  rows: Row[];
  shown: Span;
  origin: number;
  onZoom: (span: Span) => void;
}): JSX.Element {
  const [brush, setBrush] = useState<[number, number]>();
  const field = useRef<HTMLDivElement>(null);
  const isNarrow = useMedia("(max-width: 40rem)");
  const length = Math.max(1, shown.to - shown.from);
  const percent = (at: number) => (100 * (at - shown.from)) / length;
  const timeAt = (event: PointerEvent) => {
    const frame = field.current?.getBoundingClientRect();
    return frame ? shown.from + (length * (event.clientX - frame.left)) / Math.max(1, frame.width) : shown.from;
  };
  const most = isNarrow ? 3 : 8;
  const marks = ticks((shown.to - origin) / 1000, Math.max(most / 2, most * ((shown.to - origin) / length))).filter(
    (seconds) => origin + seconds * 1000 >= shown.from,
  );
  return (
    <div class="gantt">
      <div class="gantt-names" aria-hidden="true">
        {rows.map((row) => (
          <div key={row.id} class="gantt-name mono" style={{ height: `${row.lanes * LANE_PX}px` }} title={row.id}>
            {row.label}
          </div>
        ))}
      </div>
      <div
        class="gantt-field"
        ref={field}
        onPointerDown={(event) => {
          if (event.button === 0 && !(event.target as Element).closest(".gantt-bar"))
            setBrush([timeAt(event), timeAt(event)]);
        }}
        onPointerMove={(event) => {
          if (brush) setBrush([brush[0], timeAt(event)]);
        }}
        onPointerUp={() => {
          if (brush && Math.abs(brush[1] - brush[0]) > length / 100)
            onZoom({ from: Math.min(...brush), to: Math.max(...brush) });
          setBrush(undefined);
        }}
        onPointerLeave={() => setBrush(undefined)}
      >
        {marks.map((seconds) => (
          <div key={seconds} class="gantt-tick" style={{ left: `${percent(origin + seconds * 1000)}%` }}>
            <span>{seconds === 0 ? "0" : durationText(seconds).replace(/\.0 s/, " s").replace(/ 0s$/, "")}</span>
          </div>
        ))}
        <div class="gantt-rows">
          {rows.map((row) => (
            <div
              key={row.id}
              class="gantt-row"
              style={{ height: `${row.lanes * LANE_PX}px` }}
              role="group"
              aria-label={row.id}
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
                      left: `${left}%`,
                      width: `max(3px, ${right - left}%)`,
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
            style={{
              left: `${percent(Math.min(...brush))}%`,
              width: `${Math.abs(percent(brush[1]) - percent(brush[0]))}%`,
            }}
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

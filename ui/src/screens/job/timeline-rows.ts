/** The rows of the timeline: what each node or worker waited for and ran, and the same without the clock. */
import { durationText, type Model } from "~/core";
import { concurrency, pack, type Span } from "./spans";
import { isSettled, type NodeOverview } from "./store";

export type Task = Model<"TaskSummary">;
export type Children = Model<"FanOutChildren">;

export interface Bar extends Span {
  kind: "wait" | "run" | "retry" | "failed" | "lost" | "band" | "skipped";
  title: string;
  node: string;
}

export interface Row {
  id: string;
  label: string;
  bars: Bar[];
  lanes: number;
  laneOf: number[];
  /** How many children ran at once, along the band. */
  line?: number[];
  node?: string;
}

export const ms = (text: string | null | undefined): number | undefined => (text ? Date.parse(text) : undefined);

function attemptBars(tasks: readonly Task[], present: number): Bar[] {
  return tasks.flatMap((task) => {
    const from = ms(task.started_at ?? task.claimed_at);
    if (from === undefined) return [];
    const to =
      task.duration_ms !== null && task.duration_ms !== undefined
        ? from + task.duration_ms
        : (ms(task.reported_at) ?? present);
    const kind =
      task.status === "failed" || task.status === "lost" ? task.status : (task.attempt ?? 1) > 1 ? "retry" : "run";
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

export function nodeRow(
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
      const to = spans.reduce((most, span) => Math.max(most, span.to), from + 1);
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

export function workerRows(tasks: readonly Task[], present: number): Row[] {
  const byWorker = new Map<string, Task[]>();
  for (const task of tasks)
    if (task.worker_id) byWorker.set(task.worker_id, [...(byWorker.get(task.worker_id) ?? []), task]);
  return [...byWorker].map(([worker, own]) => {
    const bars = attemptBars(own, present);
    return { id: worker, label: worker.slice(-8), bars, ...pack(bars) };
  });
}

/** How rows stand beside each other: as it was; each node as soon as what it depends on is done; all from the same moment. */
export type Arrangement = "clock" | "waterfall" | "flat";

/** The rows without what waited for a worker, moved as the arrangement says. */
export function arranged(
  rows: readonly Row[],
  arrangement: Arrangement,
  before: ReadonlyMap<string, readonly string[]>,
  begin: number,
): Row[] {
  if (arrangement === "clock") return [...rows];
  const byNode = new Map(rows.map((row) => [row.id, row]));
  const runOf = (row: Row): Span | undefined => {
    const runs = row.bars.filter((bar) => bar.kind !== "wait");
    if (runs.length === 0) return undefined;
    return { from: Math.min(...runs.map((bar) => bar.from)), to: Math.max(...runs.map((bar) => bar.to)) };
  };
  const ends = new Map<string, number>();
  // Nodes without a bar, such as conditions, pass on the end of what is before them.
  const endOf = (node: string): number => {
    const known = ends.get(node);
    if (known !== undefined) return known;
    ends.set(node, begin);
    const start = Math.max(begin, ...(before.get(node) ?? []).map(endOf));
    const row = byNode.get(node);
    const run = row && runOf(row);
    const end = start + (run ? run.to - run.from : 0);
    ends.set(node, end);
    return end;
  };
  return rows.flatMap((row) => {
    const run = runOf(row);
    if (!run) return [];
    const start = arrangement === "flat" ? begin : endOf(row.id) - (run.to - run.from);
    const bars = row.bars
      .filter((bar) => bar.to > run.from)
      .map((bar) => ({ ...bar, from: bar.from - run.from + start, to: bar.to - run.from + start }));
    return [{ ...row, bars, laneOf: bars.map(() => 0) }];
  });
}

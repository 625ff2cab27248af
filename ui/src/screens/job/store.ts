/** One job as the page holds it: a signal per node, so that a change of one draws one. Events are applied as they come;
 * the whole is read again soon after, because counts and reasons are known only to the server. */
import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import {
  type ApiError,
  api,
  asApiError,
  counted,
  countText,
  type LiveEvent,
  liveState,
  type Model,
  ok,
  subscribe,
} from "~/core";

export type Overview = Model<"JobOverview">;
export type NodeOverview = Model<"NodeOverview">;
export type Structure = Model<"GraphStructure">;
export type ChildListener = (events: readonly LiveEvent[]) => void;

const ENDED: ReadonlySet<string> = new Set(["completed", "failed", "cancelled"]);
const NODE_ENDED: ReadonlySet<string> = new Set(["completed", "failed", "skipped", "cancelled"]);
/** What an event makes of a node, until the server has said the same. */
const STATUS_OF: Record<string, string> = {
  node_ready: "ready",
  node_dispatched: "dispatched",
  node_running: "running",
  node_completed: "completed",
  node_failed: "failed",
  node_retrying: "ready",
  node_skipped: "skipped",
  node_cancelled: "cancelled",
  node_lost: "ready",
};
const JOB_STATUS_OF: Record<string, string> = {
  job_started: "running",
  job_completed: "completed",
  job_failed: "failed",
  job_cancelled: "cancelled",
};
const CALM_MS = 600;
const CALM_LARGE_MS = 2_500;
const POLL_MS = 4_000;

export const hasEnded = (status: string | undefined): boolean => status !== undefined && ENDED.has(status);
export const isSettled = (node: NodeOverview): boolean => NODE_ENDED.has(node.status);
export const statusOfEvent = (type: string): string | undefined => STATUS_OF[type];

export class JobStore {
  readonly overview: Signal<Overview | undefined> = signal(undefined);
  readonly error: Signal<ApiError | undefined> = signal(undefined);
  readonly structure: Signal<Structure | undefined> = signal(undefined);
  readonly eta: Signal<Model<"JobProgress"> | undefined> = signal(undefined);
  /** Names of the nodes in the order in which they run. */
  readonly order: Signal<readonly string[]> = signal([]);
  readonly status: ReadonlySignal<string | undefined> = computed(() => this.overview.value?.status);
  readonly isOpen: ReadonlySignal<boolean> = computed(() => !hasEnded(this.status.value));
  /** Counts events, so that panes can read what they show again. */
  readonly news: Signal<number> = signal(0);
  private readonly nodes = new Map<string, Signal<NodeOverview>>();
  private readonly childListeners = new Set<ChildListener>();
  private timer: number | undefined;
  private readAt = 0;
  private hash = "";

  constructor(readonly jobId: string) {}

  node(name: string): Signal<NodeOverview> | undefined {
    return this.nodes.get(name);
  }

  /** All nodes; reads every signal, so it is for panes that show all of them. */
  all(): NodeOverview[] {
    return this.order.value.flatMap((name) => this.nodes.get(name)?.value ?? []);
  }

  onChildren(listener: ChildListener): () => void {
    this.childListeners.add(listener);
    return () => this.childListeners.delete(listener);
  }

  start(): () => void {
    void this.read();
    const end = subscribe(`job:${this.jobId}`, (events) => this.hear(events));
    const poll = window.setInterval(() => {
      const isSilent = liveState.peek() !== "live" && liveState.peek() !== "paused";
      if (this.isOpen.peek() && (isSilent || Date.now() - this.readAt > 5 * POLL_MS)) this.readSoon(POLL_MS);
    }, POLL_MS);
    return () => {
      end();
      window.clearInterval(poll);
      window.clearTimeout(this.timer);
    };
  }

  private hear(events: readonly LiveEvent[]): void {
    batch(() => {
      for (const event of events) this.apply(event);
      this.news.value += 1;
    });
    for (const listener of this.childListeners) listener(events);
    const isLarge =
      (this.overview.peek()?.nodes.length ?? 0) > 60 || (this.overview.peek()?.node_counts.total ?? 0) > 2_000;
    const isMilestone = events.length === 0 || events.some((event) => event.event_type.startsWith("job_"));
    this.readSoon(isLarge && !isMilestone ? CALM_LARGE_MS : CALM_MS);
  }

  private apply(event: LiveEvent): void {
    const known = event.node_id ? this.nodes.get(event.node_id) : undefined;
    const status = STATUS_OF[event.event_type];
    if (known && status) {
      const at = event.timestamp;
      known.value = {
        ...known.peek(),
        status: status as NodeOverview["status"],
        ...(status === "running" ? { started_at: at } : {}),
        ...(NODE_ENDED.has(status) ? { completed_at: at } : {}),
        ...(event.error_message ? { error_message: event.error_message } : {}),
      };
    }
    const jobStatus = JOB_STATUS_OF[event.event_type];
    const overview = this.overview.peek();
    if (jobStatus && overview) this.overview.value = { ...overview, status: jobStatus as Overview["status"] };
  }

  readSoon(calm = CALM_MS): void {
    if (this.timer !== undefined) return;
    this.timer = window.setTimeout(
      () => {
        this.timer = undefined;
        void this.read();
      },
      Math.max(40, calm - (Date.now() - this.readAt)),
    );
  }

  read = async (): Promise<void> => {
    const path = { job_id: this.jobId };
    this.readAt = Date.now();
    try {
      const query = { reasons: true, progress: true, structure: this.hash === "" };
      const answer = await ok(api.GET("/api/v1/jobs/{job_id}/overview", { params: { path, query } }));
      const overview = answer as Overview;
      batch(() => this.take(overview));
      if (overview.structure) {
        this.structure.value = overview.structure;
        this.hash = overview.workflow_hash;
      } else if (overview.workflow_hash !== this.hash) {
        this.hash = overview.workflow_hash;
        void this.readStructure();
      }
      this.eta.value = overview.progress ?? undefined;
    } catch (error) {
      this.error.value = asApiError(error);
    }
  };

  private async readStructure(): Promise<void> {
    try {
      const call = api.GET("/api/v1/jobs/{job_id}/graph/structure", { params: { path: { job_id: this.jobId } } });
      this.structure.value = (await ok(call)) as Structure;
    } catch (error) {
      this.hash = "";
      if (!this.overview.peek()) this.error.value = asApiError(error);
    }
  }

  private take(overview: Overview): void {
    for (const node of overview.nodes) {
      const known = this.nodes.get(node.node_id);
      if (!known) this.nodes.set(node.node_id, signal(node));
      else if (JSON.stringify(known.peek()) !== JSON.stringify(node)) known.value = node;
    }
    const order = overview.nodes.map((node) => node.node_id);
    if (order.join() !== this.order.peek().join()) this.order.value = order;
    this.overview.value = overview;
    this.error.value = undefined;
  }
}

export function useJob(jobId: string): JobStore {
  const store = useMemo(() => new JobStore(jobId), [jobId]);
  useEffect(() => store.start(), [store]);
  return store;
}

/** Nodes that failed, those that failed first in front. */
export function failedNodes(nodes: readonly NodeOverview[]): NodeOverview[] {
  // A fan-in fails because of children: they are the cause.
  const rank = (node: NodeOverview): number => {
    if (node.status === "failed" && node.type !== "fan_in") return 0;
    return (node.children?.failed ?? 0) > 0 ? 1 : node.status === "failed" ? 2 : 3;
  };
  return nodes
    .filter((node) => rank(node) < 3)
    .sort(
      (one, other) => rank(one) - rank(other) || (one.completed_at ?? "9").localeCompare(other.completed_at ?? "9"),
    );
}

/** Of a fan-out that has no error of its own. */
export function childrenFailed(node: NodeOverview | undefined): string | undefined {
  const { failed = 0, total = 0 } = node?.children ?? {};
  return failed ? `${countText(failed)} of ${counted(total, "child", "children")} failed` : undefined;
}

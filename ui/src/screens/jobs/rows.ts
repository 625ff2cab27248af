/** The rows of the list: pages by cursor, changes patched in place, and new jobs kept aside until they are asked for. */
import { batch, type Signal, signal } from "@preact/signals";
import { type ApiError, api, asApiError, type LiveEvent, type Model, ok } from "~/core";
import type { JobQuery } from "./query";

export type Job = Model<"JobSummary">;
type Progress = Model<"JobProgress">;

const PAGE = 100;
const STATUS_OF: Partial<Record<LiveEvent["event_type"], Job["status"]>> = {
  job_started: "running",
  job_completed: "completed",
  job_failed: "failed",
  job_cancelled: "cancelled",
};

export class JobRows {
  readonly rows: Signal<readonly Job[]> = signal([]);
  /** Jobs that match and are newer than the first row. */
  readonly fresh: Signal<readonly Job[]> = signal([]);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly loading = signal(true);
  readonly isLoaded = signal(false);
  readonly hasMore = signal(false);
  readonly progress = signal<ReadonlyMap<string, Progress>>(new Map());
  private cursor: string | null = null;
  private running = new AbortController();
  private timer: number | undefined;
  private checkedAt = 0;

  constructor(private query: JobQuery) {}

  private page(cursor: string | null, limit = PAGE) {
    const query = { ...this.query, limit, progress: cursor === null, ...(cursor ? { cursor } : {}) };
    return ok(api.GET("/api/v1/jobs", { params: { query }, signal: this.running.signal }));
  }

  /** From the beginning. */
  load = async (query: JobQuery = this.query): Promise<void> => {
    this.stop();
    this.running = new AbortController();
    this.query = query;
    this.loading.value = true;
    const signal = this.running.signal;
    try {
      const page = await this.page(null);
      batch(() => {
        this.rows.value = page.jobs;
        this.fresh.value = [];
        this.error.value = undefined;
        this.hasMore.value = Boolean(page.next_cursor);
        this.loading.value = false;
        this.isLoaded.value = true;
        this.progress.value = new Map(page.progress?.map((job) => [job.job_id, job]));
      });
      this.cursor = page.next_cursor ?? null;
    } catch (error) {
      if (signal.aborted) return;
      batch(() => {
        this.error.value = asApiError(error);
        this.loading.value = false;
      });
    }
  };

  loadMore = async (): Promise<void> => {
    if (!this.cursor || this.loading.peek()) return;
    this.loading.value = true;
    const signal = this.running.signal;
    try {
      const page = await this.page(this.cursor);
      this.cursor = page.next_cursor ?? null;
      batch(() => {
        this.rows.value = [...this.rows.peek(), ...page.jobs];
        this.hasMore.value = this.cursor !== null;
        this.loading.value = false;
      });
    } catch {
      if (!signal.aborted) this.loading.value = false;
    }
  };

  /** Rows change where they are; rows that would be added wait, so that nothing moves under the pointer. */
  hear(events: readonly LiveEvent[]): void {
    const changes = new Map<string, Partial<Job>>();
    let looks = events.length === 0;
    for (const event of events) {
      const status = STATUS_OF[event.event_type];
      if (event.event_type === "job_created") looks = true;
      if (!status) continue;
      const ended = status !== "running";
      changes.set(event.job_id, {
        ...changes.get(event.job_id),
        status,
        ...(ended ? { completed_at: event.timestamp } : { started_at: event.timestamp }),
        ...(status === "failed" && event.error_message ? { error_message: event.error_message } : {}),
      });
    }
    if (changes.size > 0) {
      this.rows.value = this.rows.peek().map((job) => {
        const change = changes.get(job.job_id);
        if (!change) return job;
        const { started_at, completed_at } = { ...job, ...change };
        const seconds =
          started_at && completed_at
            ? (Date.parse(completed_at) - Date.parse(started_at)) / 1000
            : job.duration_seconds;
        return { ...job, ...change, duration_seconds: seconds ?? null };
      });
    }
    if (looks) this.lookForNew();
  }

  private lookForNew(): void {
    if (this.timer !== undefined) return;
    this.timer = window.setTimeout(
      async () => {
        this.timer = undefined;
        this.checkedAt = Date.now();
        try {
          const page = await this.page(null);
          const known = new Map(this.rows.peek().map((job) => [job.job_id, job]));
          const newest = this.rows.peek()[0]?.created_at ?? "";
          const byId = new Map(page.jobs.map((job) => [job.job_id, job]));
          batch(() => {
            this.fresh.value = page.jobs.filter((job) => !known.has(job.job_id) && job.created_at >= newest);
            this.rows.value = this.rows.peek().map((job) => byId.get(job.job_id) ?? job);
          });
        } catch {
          // The next event asks again.
        }
      },
      Math.max(200, 1000 - (Date.now() - this.checkedAt)),
    );
  }

  /** What was just changed; the stream of events has nothing about labels. */
  relabel(labels: ReadonlyMap<string, Record<string, string>>): void {
    this.rows.value = this.rows.peek().map((job) => {
      const now = labels.get(job.job_id);
      return now ? { ...job, labels: now } : job;
    });
  }

  showFresh(): void {
    batch(() => {
      this.rows.value = [...this.fresh.peek(), ...this.rows.peek()];
      this.fresh.value = [];
    });
    void this.readProgress();
  }

  /** How far the running ones are, of those that are likely in sight. */
  readProgress = async (): Promise<void> => {
    const ids = this.rows
      .peek()
      .filter((job) => job.status === "running")
      .slice(0, 50)
      .map((job) => job.job_id);
    if (ids.length === 0) return;
    try {
      const query = { job_id: ids };
      const answer = await ok(api.GET("/api/v1/jobs/progress", { params: { query }, signal: this.running.signal }));
      this.progress.value = new Map(answer.jobs.map((job) => [job.job_id, job]));
    } catch {
      // It stays as it was.
    }
  };

  stop(): void {
    this.running.abort();
    window.clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** Data that a part of a screen shows. Each part loads, fails and refreshes by itself, and keeps what it showed. */
import { batch, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Empty, ErrorBox, Loading, NoPermission } from "../widgets/states";
import { type ApiError, asApiError } from "./api";
import { liveState, subscribe, type Topic } from "./live";

export interface Resource<T> {
  /** The newest answer, also while the next one loads or fails. */
  readonly data: Signal<T | undefined>;
  readonly error: ReadonlySignal<ApiError | undefined>;
  readonly loading: ReadonlySignal<boolean>;
  /** When `data` was read, in milliseconds. */
  readonly readAt: ReadonlySignal<number | undefined>;
  reload(): Promise<void>;
}

export interface ResourceOptions {
  /** Read again when one of these topics has news: `["jobs"]`, `["job:0198…"]`. */
  live?: readonly Topic[];
  /** Read again this often in any case; without live news at least every 5 seconds if `live` is given. */
  everySeconds?: number;
  /** Forget the old data when `inputs` change, because it belongs to something else. Default: true. */
  clears?: boolean;
}

/** At most one reload in so many milliseconds, however many events arrive. */
const CALM_MS = 700;

/** Load when the component appears and when `inputs` change.
 *
 * `const jobs = useResource((signal) => ok(api.GET("/api/v1/jobs", { signal })), [], { live: ["jobs"] })` */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
  { live = [], everySeconds, clears = true }: ResourceOptions = {},
): Resource<T> {
  const store = useMemo(() => new Store<T>(), []);
  store.load = load;
  useEffect(() => {
    if (clears) store.forget();
    void store.reload();
    return () => store.stop();
  }, [...inputs]);
  const topics = live.join(" ");
  useEffect(() => {
    const endings = live.map((topic) => subscribe(topic, () => store.reloadSoon()));
    const timer = window.setInterval(() => {
      const silent = live.length > 0 && liveState.peek() !== "live" ? 5 : Number.POSITIVE_INFINITY;
      const due = Math.min(everySeconds ?? Number.POSITIVE_INFINITY, silent) * 1000;
      if (!document.hidden && Date.now() - store.triedAt >= due) void store.reload();
    }, 1000);
    return () => {
      window.clearInterval(timer);
      for (const end of endings) end();
    };
  }, [topics, everySeconds]);
  return store;
}

class Store<T> implements Resource<T> {
  readonly data = signal<T | undefined>(undefined);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly loading = signal(true);
  readonly readAt = signal<number | undefined>(undefined);
  triedAt = 0;
  load: (signal: AbortSignal) => Promise<T> = () => Promise.reject(new Error("nothing to load"));
  private running: AbortController | undefined;
  private timer: number | undefined;

  reload = async (): Promise<void> => {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.triedAt = Date.now();
    this.loading.value = true;
    try {
      const data = await this.load(running.signal);
      if (running.signal.aborted) return;
      batch(() => {
        this.data.value = data;
        this.error.value = undefined;
        this.readAt.value = Date.now();
        this.loading.value = false;
      });
    } catch (error) {
      if (running.signal.aborted) return;
      batch(() => {
        this.error.value = asApiError(error);
        this.loading.value = false;
      });
    }
  };

  reloadSoon(): void {
    if (this.timer !== undefined) return;
    const pause = Math.max(30, CALM_MS - (Date.now() - this.triedAt));
    this.timer = window.setTimeout(() => {
      this.timer = undefined;
      void this.reload();
    }, pause);
  }

  forget(): void {
    batch(() => {
      this.data.value = undefined;
      this.error.value = undefined;
      this.readAt.value = undefined;
    });
  }

  stop(): void {
    this.running?.abort();
    window.clearTimeout(this.timer);
    this.timer = undefined;
  }
}

interface ResolvedProps<T> {
  resource: Resource<T>;
  children: (data: T) => ComponentChildren;
  /** What takes the place of the data while it loads for the first time. */
  loading?: ComponentChildren;
  isEmpty?: (data: T) => boolean;
  /** Shown if `isEmpty` holds: what belongs here, why there is none, and what to do. */
  empty?: ComponentChildren;
  /** What the part is called, for its messages: "the jobs". */
  what?: string;
}

/** The data of a resource, or why there is none. Old data stays readable below the message when a reload fails. */
export function Resolved<T>({ resource, children, loading, isEmpty, empty, what }: ResolvedProps<T>): JSX.Element {
  const data = resource.data.value;
  const error = resource.error.value;
  if (data === undefined) {
    if (error === undefined) return <>{loading ?? <Loading what={what} />}</>;
    if (error.isForbidden) return <NoPermission error={error} what={what} />;
    return <ErrorBox error={error} what={what} retry={resource.reload} />;
  }
  return (
    <>
      {error && !error.isPassing ? <ErrorBox error={error} what={what} retry={resource.reload} /> : null}
      {isEmpty?.(data) ? (empty ?? <Empty title="Nothing here" />) : children(data)}
    </>
  );
}

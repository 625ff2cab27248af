/** Live events with one connection per browser. The visible tab that holds a lock is connected and passes events on to
 * the others; hidden tabs hold nothing. What was missed is asked for by the place of the last event. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { firstAnswerAt, type Model } from "./api";

export type LiveEvent = Model<"StreamedEvent">;
/** `jobs`: events of jobs as a whole. `job:<id>`: all events of one job. `nodes`: all events of all jobs. */
export type Topic = "jobs" | "nodes" | `job:${string}`;
/** `live`: connected. `connecting`: at first, or again. `paused`: the tab is hidden. `polling`: the connection has been
 * lost for a while, and screens read again every few seconds. */
export type LiveState = "connecting" | "live" | "polling" | "paused";

type Listener = (events: readonly LiveEvent[]) => void;
type Message =
  | { kind: "events"; events: LiveEvent[]; at: string }
  | { kind: "state"; state: LiveState }
  | { kind: "wants"; tab: string; nodes: boolean }
  | { kind: "who" };

const STREAM = "/api/v1/events/stream";
const LOCK = "rmhdag-live";
const MILESTONES = ["job_created", "job_started", "job_completed", "job_failed", "job_cancelled", "job_reclaimed"];
/** Longer than the pause between two pings of the server. */
const SILENCE_MS = 25_000;
const POLLING_AFTER_MS = 10_000;
const WANTS_EVERY_MS = 20_000;
/** Events that arrive together are passed on together: one drawing for a burst. */
const GATHER_MS = 60;
/** The header `Date` has whole seconds. */
const SINCE_MARGIN_MS = 2_000;
/** A page that connects later, because it was hidden, reads again instead of asking for all that happened. */
const FIRST_WITHIN_MS = 60_000;

const state = signal<LiveState>("connecting");
const heardAt = signal<number>(Date.now());
export const liveState: ReadonlySignal<LiveState> = state;
/** When the last sign of life came, in milliseconds. */
export const liveAt: ReadonlySignal<number> = heardAt;

const listeners = new Map<Topic, Set<Listener>>();
const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("rmhdag-live");
const tab = crypto.getRandomValues(new Uint32Array(2)).join("-");
const wantsOfOthers = new Map<string, { nodes: boolean; at: number }>();
let gathered: LiveEvent[] = [];
let lastPlace = "";
let release: (() => void) | undefined;
let connection: AbortController | undefined;
let connectedWithNodes = false;
let hasConnected = false;

/** Hear of news in a topic, in batches. The function that comes back ends it. A batch without events means that some
 * may have been missed: read again. */
export function subscribe(topic: Topic, listener: Listener): () => void {
  const all = listeners.get(topic) ?? new Set();
  listeners.set(topic, all.add(listener));
  announceWants();
  return () => {
    all.delete(listener);
    if (all.size === 0) listeners.delete(topic);
    announceWants();
  };
}

const wantsNodes = (): boolean => [...listeners.keys()].some((topic) => topic !== "jobs");

function announceWants(): void {
  channel?.postMessage({ kind: "wants", tab, nodes: wantsNodes() } satisfies Message);
  widenIfNeeded();
}

function anybodyWantsNodes(): boolean {
  const oldest = Date.now() - 3 * WANTS_EVERY_MS;
  for (const [name, wants] of wantsOfOthers) if (wants.at < oldest) wantsOfOthers.delete(name);
  return wantsNodes() || [...wantsOfOthers.values()].some((wants) => wants.nodes);
}

/** A connection for milestones only is replaced by a wider one; the wider one stays until the next reconnection. */
function widenIfNeeded(): void {
  if (connection !== undefined && !connectedWithNodes && anybodyWantsNodes()) connection.abort("wider");
}

function deliver(events: readonly LiveEvent[]): void {
  heardAt.value = Date.now();
  const byTopic = new Map<Topic, LiveEvent[]>();
  const add = (topic: Topic, event: LiveEvent) => {
    if (!listeners.has(topic)) return;
    const batch = byTopic.get(topic) ?? [];
    batch.push(event);
    byTopic.set(topic, batch);
  };
  for (const event of events) {
    add(`job:${event.job_id}`, event);
    add("nodes", event);
    if (event.event_type.startsWith("job_")) add("jobs", event);
  }
  for (const [topic, batch] of byTopic) for (const listener of listeners.get(topic) ?? []) listener(batch);
}

function resync(): void {
  for (const all of listeners.values()) for (const listener of all) listener([]);
}

function setState(next: LiveState): void {
  if (next === "live") heardAt.value = Date.now();
  state.value = next;
  if (release !== undefined) channel?.postMessage({ kind: "state", state: next } satisfies Message);
}

channel?.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if (data.kind === "events") {
    lastPlace = data.at;
    deliver(data.events);
  } else if (data.kind === "state" && !document.hidden && release === undefined) state.value = data.state;
  else if (data.kind === "wants") {
    wantsOfOthers.set(data.tab, { nodes: data.nodes, at: Date.now() });
    widenIfNeeded();
  } else if (data.kind === "who") {
    announceWants();
    if (release !== undefined) setState(state.value);
  }
});

async function lead(): Promise<void> {
  let pause = 500;
  let lostAt = Date.now();
  while (release !== undefined) {
    connection = new AbortController();
    connectedWithNodes = anybodyWantsNodes();
    const began = Date.now();
    let hasEnded = false;
    try {
      hasEnded = await listen(connection, connectedWithNodes);
    } catch {
      // Whatever ended it: the next attempt follows, and after a while polling takes over.
    }
    const wasWidened = connection.signal.reason === "wider";
    if (release === undefined) return;
    // The server ends every stream after a while; coming back at once is no news.
    if (wasWidened || (hasEnded && Date.now() - began > 5_000)) continue;
    if (state.value === "live") lostAt = Date.now();
    setState(Date.now() - lostAt > POLLING_AFTER_MS ? "polling" : "connecting");
    if (Date.now() - began > 5_000) pause = 500;
    await new Promise((resolve) => window.setTimeout(resolve, pause * (0.7 + 0.6 * Math.random())));
    pause = Math.min(10_000, pause * 2);
  }
}

async function listen(control: AbortController, withNodes: boolean): Promise<boolean> {
  const parts = withNodes ? [] : MILESTONES.map((type) => `event_types=${type}`);
  // The first connection delivers what happened since the page began to read, so nothing has to be read again for it.
  const isFirst = !hasConnected && !lastPlace && performance.now() < FIRST_WITHIN_MS && firstAnswerAt !== undefined;
  if (isFirst && firstAnswerAt) parts.push(`since=${new Date(firstAnswerAt - SINCE_MARGIN_MS).toISOString()}`);
  const query = parts.join("&");
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (lastPlace) headers["Last-Event-ID"] = lastPlace;
  let watchdog = window.setTimeout(() => control.abort("silent"), SILENCE_MS);
  try {
    const response = await fetch(query ? `${STREAM}?${query}` : STREAM, {
      headers,
      signal: control.signal,
      credentials: "same-origin",
    });
    if (response.status === 400) {
      // The place is of another database, or pruned: begin now, and read everything again.
      lastPlace = "";
      resync();
    }
    if (!response.ok || response.body === null) return false;
    const wasLost = state.value !== "live";
    setState("live");
    if (!lastPlace && wasLost && !isFirst) resync();
    hasConnected = true;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return true;
      heardAt.value = Date.now();
      window.clearTimeout(watchdog);
      watchdog = window.setTimeout(() => control.abort("silent"), SILENCE_MS);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) readBlock(block);
    }
  } finally {
    window.clearTimeout(watchdog);
  }
}

function readBlock(block: string): void {
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id:")) lastPlace = line.slice(3).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (!data) return;
  gathered.push(JSON.parse(data) as LiveEvent);
  if (gathered.length === 1) window.setTimeout(flush, GATHER_MS);
}

function flush(): void {
  const events = gathered;
  gathered = [];
  channel?.postMessage({ kind: "events", events, at: lastPlace } satisfies Message);
  deliver(events);
}

/** Hold the lock while this tab is visible. Without locks (plain http on another host) each visible tab connects. */
function take(): void {
  const held = new Promise<void>((resolve) => {
    waiting?.abort();
    const control = new AbortController();
    waiting = control;
    const begin = (): Promise<void> => {
      if (control.signal.aborted) return Promise.resolve();
      return new Promise<void>((free) => {
        release = () => {
          release = undefined;
          connection?.abort("released");
          free();
          resolve();
        };
        setState("connecting");
        channel?.postMessage({ kind: "who" } satisfies Message);
        void lead();
      });
    };
    if (!navigator.locks) void begin();
    else navigator.locks.request(LOCK, { signal: control.signal }, begin).catch(() => resolve());
  });
  void held;
}

let waiting: AbortController | undefined;
let hiddenAt = 0;

function onVisibility(): void {
  if (document.hidden) {
    hiddenAt = Date.now();
    waiting?.abort();
    release?.();
    state.value = "paused";
  } else {
    state.value = "connecting";
    channel?.postMessage({ kind: "who" } satisfies Message);
    take();
    if (hiddenAt > 0 && Date.now() - hiddenAt > 1_000) resync();
  }
}

let hasStarted = false;

/** Begin, when somebody is signed in and the first screen has said what it listens to: a connection that is made before
 * is replaced by a wider one. Later calls do nothing. */
export function startLive(): void {
  if (hasStarted) return;
  hasStarted = true;
  document.addEventListener("visibilitychange", onVisibility);
  window.addEventListener("pagehide", () => release?.());
  window.addEventListener("pageshow", (event) => event.persisted && onVisibility());
  window.setInterval(announceWants, WANTS_EVERY_MS);
  if (document.hidden) state.value = "paused";
  else {
    // A tab that leads already says how it stands.
    channel?.postMessage({ kind: "who" } satisfies Message);
    take();
  }
}

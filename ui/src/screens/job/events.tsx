/** What has happened to the job, as sentences, oldest first. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type ApiError, api, asApiError, counted, type Model, ok, useQuery } from "~/core";
import { Button, Chip, Empty, ErrorBox, Icon, type IconName, Loading, Time, type Tone } from "~/widgets";
import { childOf } from "./squares";
import type { JobStore } from "./store";

type Event = Model<"TimelineEvent">;

const LOOKS: Record<string, [IconName, Tone]> = {
  success: ["check", "good"],
  failure: ["cross", "bad"],
  warning: ["warning", "warning"],
  info: ["about", "off"],
};
const PAGE = 500;

export function Events({ store }: { store: JobStore }): JSX.Element {
  const [kind, setKind] = useQuery("events", "nodes");
  const state = useMemo(
    () => ({
      events: signal<Event[]>([]),
      total: signal(0),
      next: signal<number | undefined>(0),
      error: signal<ApiError | undefined>(undefined),
      busy: false,
    }),
    [store],
  );
  const read = async () => {
    if (state.busy) return;
    state.busy = true;
    try {
      const after = state.events.peek().at(-1)?.event_id ?? 0;
      const params = { path: { job_id: store.jobId }, query: { after, limit: PAGE } };
      const page = await ok(api.GET("/api/v1/jobs/{job_id}/timeline", { params }));
      state.events.value = [...state.events.peek(), ...page.events];
      state.total.value = page.summary.total_events;
      state.next.value = page.next_after ?? undefined;
      state.error.value = undefined;
    } catch (error) {
      state.error.value = asApiError(error);
    } finally {
      state.busy = false;
    }
  };
  const news = store.news.value;
  useEffect(() => {
    // Behind the end only: pages before it are asked for.
    if (state.next.peek() === undefined || state.events.peek().length === 0) void read();
  }, [state, news, store.isOpen.value]);
  const all = state.events.value;
  const shown = all.filter((event) => {
    if (kind === "all") return true;
    if (kind === "failures") return event.status === "failure" || event.status === "warning";
    return !childOf(event.node_id);
  });
  if (state.error.value && all.length === 0)
    return <ErrorBox error={state.error.value} what="the events" retry={() => void read()} />;
  if (all.length === 0) return <Loading what="the events" rows={6} />;
  return (
    <section class="card card-flush" aria-label="Events">
      <div class="pane-tools chips" role="group" aria-label="Which events">
        {[
          ["nodes", "Job and nodes"],
          ["failures", "Failures and warnings"],
          ["all", "All, children too"],
        ].map(([id, words]) => (
          <Chip key={id} chosen={kind === id} onToggle={() => setKind(id ?? null)}>
            {words}
          </Chip>
        ))}
        <span class="small faint">
          {counted(state.total.value, "event")} recorded
          {all.length < state.total.value ? `, ${counted(all.length, "event")} read` : ""}
        </span>
      </div>
      {shown.length === 0 ? (
        <Empty title="No such event" icon="bell">
          Choose “All” to see every event that was read.
        </Empty>
      ) : null}
      <ol class="event-list">
        {shown.slice(0, 3_000).map((event) => {
          const [icon, tone] = LOOKS[event.status] ?? ["about", "off"];
          return (
            <li key={event.event_id} class={`event tone-${tone}`}>
              <Icon name={icon as IconName} size={14} />
              <Time at={event.timestamp} exact="clock" />
              <span>{event.message}</span>
              <span class="event-source faint small">{event.source_app}</span>
            </li>
          );
        })}
      </ol>
      {state.next.value !== undefined ? (
        <p class="pane-note">
          <Button onClick={() => void read()}>Read {PAGE} more</Button>
        </p>
      ) : null}
    </section>
  );
}

/** What was taken from processes that did not answer any more, and what orchestrators have reported. */
import type { JSX } from "preact";
import { api, Link, ok, Resolved, shortId, to, useResource } from "~/core";
import { Icon, Section, Status, Time } from "~/widgets";

const STATUSES: Record<string, string> = {
  failure: "failed",
  warning: "degraded",
  success: "completed",
  info: "about",
};
const SHOWN = 15;

export function Takeovers(): JSX.Element {
  const activity = useResource(
    (signal) => ok(api.GET("/api/v1/orchestrator/activity", { params: { query: { all: true } }, signal })),
    [],
    { everySeconds: 10 },
  );
  return (
    <div class="grid">
      <Section title="Taken over" aside={<span>among the newest 20,000 events</span>}>
        <Resolved
          resource={activity}
          what="what was taken over"
          isEmpty={(data) => data.takeovers.length === 0}
          empty={
            <p class="soft">
              <Icon name="check" size={14} /> No process has lost work lately. When one dies, what it had appears here:
              from whom, by whom, and after how long.
            </p>
          }
        >
          {(data) => (
            <ul class="process-events">
              {data.takeovers.slice(0, SHOWN).map((one) => (
                <li key={`${one.job_id} ${one.node_id} ${one.timestamp}`}>
                  <Status status={one.node_id ? "lost" : "stale"} word={one.node_id ? "task" : "job"} look="plain" />
                  <span>
                    {one.message}.{" "}
                    <Link
                      to={`${to`/jobs/${one.job_id}`}${one.node_id ? `?node=${encodeURIComponent(one.node_id)}` : ""}`}
                    >
                      job {shortId(one.job_id)}
                    </Link>
                  </span>
                  <Time at={one.timestamp} />
                </li>
              ))}
            </ul>
          )}
        </Resolved>
      </Section>
      <Section title="Events of orchestrators" aside={<span>the last 15</span>}>
        <Resolved
          resource={activity}
          what="the events"
          isEmpty={(data) => data.events.length === 0}
          empty={<p class="soft">No events yet.</p>}
        >
          {(data) => (
            <ul class="process-events">
              {data.events.slice(0, SHOWN).map((event, index) => (
                <li key={`${event.timestamp} ${index}`}>
                  <Status status={STATUSES[event.status] ?? event.status} word={event.status} look="plain" />
                  <span>
                    {event.message} <span class="faint">({shortId(event.owner_id)})</span>
                  </span>
                  <Time at={event.timestamp} />
                </li>
              ))}
            </ul>
          )}
        </Resolved>
      </Section>
    </div>
  );
}

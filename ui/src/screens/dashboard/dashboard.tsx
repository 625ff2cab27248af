/** Is it fine, and what needs me? */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import {
  ageText,
  api,
  countText,
  durationText,
  may,
  momentText,
  now,
  ok,
  percentText,
  Resolved,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { Bars, ButtonLink, Chip, Loading, Page, Section, Stat } from "~/widgets";
import { NeedsAttention } from "./attention";
import { FirstRead } from "./first-read";
import { Footprints } from "./footprints";
import { RunningNow, Workers } from "./running";

const WINDOWS = { "1h": [1, 5, "hour"], "24h": [24, 60, "24 hours"], "7d": [168, 360, "7 days"] } as const;
type Window = keyof typeof WINDOWS;

export default function Dashboard(): JSX.Element {
  useTitle("Dashboard");
  const [chosen, choose] = useQuery("window", "24h");
  const window: Window = chosen in WINDOWS ? (chosen as Window) : "24h";
  const [hours, minutes, words] = WINDOWS[window];
  const first = useMemo(() => new FirstRead(hours, minutes), []);
  const pulse = useResource(
    (signal) => first.part("pulse", () => ok(api.GET("/api/v1/pulse", { params: { query: { hours } }, signal }))),
    [hours],
    { live: ["jobs"], everySeconds: 30, clears: false },
  );
  const throughput = useResource(
    (signal) =>
      first.part("throughput", () =>
        ok(api.GET("/api/v1/metrics/throughput", { params: { query: { hours, bucket_minutes: minutes } }, signal })),
      ),
    [hours],
    { live: ["jobs"], everySeconds: 60, clears: false },
  );
  return (
    <Page
      title="Dashboard"
      actions={
        <>
          <div class="chips">
            {Object.keys(WINDOWS).map((name) => (
              <Chip key={name} chosen={name === window} onToggle={() => choose(name)}>
                {name}
              </Chip>
            ))}
          </div>
          {may("submit") ? (
            <ButtonLink to="/submit" look="primary" icon="submit">
              New job
            </ButtonLink>
          ) : null}
        </>
      }
    >
      <NeedsAttention first={first} hours={hours} window={window} />
      <Resolved resource={pulse} what="the figures" loading={<Loading rows={2} what="the figures" />}>
        {(data) => (
          <div class="card dashboard-stats">
            <Stat
              label="Running now"
              value={countText(data.running)}
              to="/jobs?q=status:running"
              note={`${countText(data.pending)} pending`}
            />
            <Stat
              label={`Completed in ${words}`}
              value={(data.is_sample ? "≥ " : "") + countText(data.completed)}
              to={`/jobs?q=status:completed+finished:${window}`}
              note={data.cancelled ? `${countText(data.cancelled)} cancelled` : undefined}
            />
            <Stat label="Failed" value={countText(data.failed)} to={`/jobs?q=status:failed+finished:${window}`} />
            <Stat
              label="Success"
              value={percentText(data.success_rate)}
              to={`/jobs?q=status:completed,failed+finished:${window}`}
              note="of completed and failed"
            />
            <Stat
              label="Duration"
              value={durationText(data.p50_duration_seconds)}
              to={`/jobs?q=status:completed+finished:${window}`}
              note={`p95 ${durationText(data.p95_duration_seconds)}`}
            />
            <Stat
              label="Wait for the start"
              value={durationText(data.p50_wait_seconds)}
              to={`/jobs?q=finished:${window}`}
              note={`p95 ${durationText(data.p95_wait_seconds)}`}
            />
          </div>
        )}
      </Resolved>
      <Footprints />
      <div class="dashboard-columns">
        <Section title="Running now" flush>
          <RunningNow first={first} />
        </Section>
        <div class="stack">
          <Section
            title="Jobs completed"
            aside={<span>per {minutes < 60 ? `${minutes} minutes` : minutes === 60 ? "hour" : "6 hours"}</span>}
          >
            <Resolved resource={throughput} what="the throughput">
              {(data) => (
                <>
                  <Bars
                    title={`Jobs completed in ${words}`}
                    unit="jobs"
                    points={data.buckets.map((bucket) => ({
                      label: momentText(bucket.timestamp, { seconds: false, named: false }),
                      value: bucket.jobs_completed,
                    }))}
                  />
                  <p class="dashboard-axis faint small" aria-hidden="true">
                    <span>{ageText(data.period.since, now.peek())}</span>
                    <span>now</span>
                  </p>
                </>
              )}
            </Resolved>
          </Section>
          <Section title="Workers">
            <Workers first={first} />
          </Section>
        </div>
      </div>
    </Page>
  );
}

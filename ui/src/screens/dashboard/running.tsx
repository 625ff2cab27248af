/** What runs now and when it will be done, and how busy the workers are. */
import type { JSX } from "preact";
import { ageText, api, counted, Link, now, ok, Resolved, to, useResource } from "~/core";
import { ButtonLink, Duration, Empty, ProgressBar, Status, sharesOf, Time } from "~/widgets";
import type { FirstRead } from "./first-read";

const SHOWN = 8;
const NONE = { total: 0, completed: 0, failed: 0, skipped: 0, cancelled: 0, running: 0 };

async function readRunning(first: FirstRead, signal: AbortSignal) {
  const query = { status: ["running", "pending"] as ("running" | "pending")[], limit: SHOWN, progress: true };
  const page = await first.part("open_jobs", () => ok(api.GET("/api/v1/jobs", { params: { query }, signal })));
  const progress = new Map(page.progress?.map((one) => [one.job_id, one]));
  return { jobs: page.jobs, hasMore: Boolean(page.next_cursor), progress };
}

export function RunningNow({ first }: { first: FirstRead }): JSX.Element {
  const running = useResource((signal) => readRunning(first, signal), [], { live: ["jobs"], everySeconds: 3 });
  return (
    <Resolved
      resource={running}
      what="what runs now"
      isEmpty={(data) => data.jobs.length === 0}
      empty={
        <Empty title="Nothing runs now" icon="play" action={<ButtonLink to="/jobs">See the last jobs</ButtonLink>}>
          Jobs appear here as soon as they are submitted.
        </Empty>
      }
    >
      {(data) => (
        <>
          <ul class="running">
            {data.jobs.map((job) => {
              const progress = data.progress.get(job.job_id);
              const end = progress?.estimated_completion;
              return (
                <li key={job.job_id}>
                  <Status status={job.status} look="icon" />
                  <Link to={to`/jobs/${job.job_id}`} class="running-name cut">
                    {job.workflow_id}
                  </Link>
                  {progress ? (
                    <span class="running-bar">
                      <ProgressBar
                        shares={sharesOf({ ...NONE, ...progress.nodes })}
                        total={progress.nodes.total ?? 0}
                        label="Nodes"
                      />
                      <span class="num small">{Math.floor(progress.overall_percent)} %</span>
                    </span>
                  ) : (
                    <span />
                  )}
                  <span class="running-time small">
                    {job.started_at ? <Duration since={job.started_at} /> : <Time at={job.created_at} />}
                    {end && Date.parse(end) > now.value ? <span class="faint"> done {ageText(end)}</span> : null}
                  </span>
                </li>
              );
            })}
          </ul>
          {data.hasMore ? (
            <p class="dashboard-more">
              <Link to="/jobs?q=status:running,pending">All that runs or waits</Link>
            </p>
          ) : null}
        </>
      )}
    </Resolved>
  );
}

export function Workers({ first }: { first: FirstRead }): JSX.Element {
  const read = (signal: AbortSignal) => first.part("workers", () => ok(api.GET("/api/v1/workers", { signal })));
  const workers = useResource(read, [], {
    live: ["jobs"],
    everySeconds: 5,
  });
  return (
    <Resolved
      resource={workers}
      what="the workers"
      isEmpty={(data) => !data.workers.some((worker) => worker.alive)}
      empty={<p class="notice tone-bad">No worker is alive: nothing can run. Start one with `rmhdag worker`.</p>}
    >
      {(data) => (
        <ul class="workers">
          {data.workers
            .filter((worker) => worker.alive)
            .slice(0, 12)
            .map((worker) => (
              <li key={worker.worker_id}>
                <Link to={`/nodes?worker=${worker.worker_id}`} class="cut">
                  {worker.host}:{worker.process_id}
                </Link>
                <ProgressBar
                  label="Slots"
                  total={worker.slots}
                  shares={[{ count: Math.min(worker.tasks_held, worker.slots), tone: "active", word: "busy" }]}
                />
                <span class="num small">
                  {worker.tasks_held} of {counted(worker.slots, "slot")}
                </span>
              </li>
            ))}
        </ul>
      )}
    </Resolved>
  );
}

/** What needs a person, each with its number and the list that shows exactly that. */
import type { ComponentChildren, JSX } from "preact";
import { api, counted, countText, durationText, Link, type Model, ok, Resolved, to, useResource } from "~/core";
import { Icon, type IconName, Section, Time, type Tone } from "~/widgets";
import type { FirstRead } from "./first-read";

type Attention = Model<"Attention">;

interface Item {
  key: string;
  icon: IconName;
  tone: Tone;
  title: ComponentChildren;
  detail?: ComponentChildren;
  to: string;
  /** What the link does: "Show these jobs". */
  action: string;
  at?: ComponentChildren;
}

function itemsOf(data: Attention, window: string): Item[] {
  const items: Item[] = [];
  const add = (item: Item) => items.push(item);
  if (data.approvals + data.reviews > 0) {
    const parts = [
      data.approvals ? counted(data.approvals, "step of a job", "steps of jobs") : "",
      data.reviews ? counted(data.reviews, "revision under review", "revisions under review") : "",
    ].filter(Boolean);
    add({
      key: "approvals",
      icon: "approval",
      tone: "waiting",
      title: `${counted(data.approvals + data.reviews, "decision is", "decisions are")} waiting for somebody`,
      detail: parts.join(", "),
      to: "/approvals",
      action: "Decide",
    });
  }
  for (const queue of data.queues) {
    add({
      key: `queue ${queue.queue}`,
      icon: "queue",
      tone: "bad",
      title: `${counted(queue.waiting, "task waits", "tasks wait")} in queue ${queue.queue}, which no worker serves`,
      detail: queue.attention,
      to: `/queues?queue=${encodeURIComponent(queue.queue)}`,
      action: "Open the queue",
      at: queue.oldest_seconds === null ? undefined : `oldest ${durationText(queue.oldest_seconds)}`,
    });
  }
  for (const group of data.failures) {
    const only = group.count === 1;
    add({
      key: `failure ${group.workflow_id} ${group.failure}`,
      icon: "cross",
      tone: "bad",
      title: (
        <>
          {counted(group.count, "job")} of <strong>{group.workflow_id}</strong> failed
        </>
      ),
      detail: group.error || "without a message",
      to: only
        ? to`/jobs/${group.newest_job_id}`
        : `/jobs?q=workflow:${encodeURIComponent(group.workflow_id)}+failure:${group.failure}+finished:${window}`,
      action: only ? "Open the job" : "Show these jobs",
      at: only ? (
        <Time at={group.last_seen_at} />
      ) : (
        <>
          last <Time at={group.last_seen_at} />, first <Time at={group.first_seen_at} />
        </>
      ),
    });
  }
  for (const job of data.slow_jobs) {
    add({
      key: `slow ${job.job_id}`,
      icon: "clock",
      tone: "warning",
      title: (
        <>
          A job of <strong>{job.workflow_id}</strong> takes longer than usual
        </>
      ),
      detail: `running for ${durationText(job.running_seconds)}; 19 of 20 are done within ${durationText(job.usual_seconds)}`,
      to: to`/jobs/${job.job_id}`,
      action: "Open the job",
      at: <Time at={job.started_at} />,
    });
  }
  if (data.dead_letters > 0) {
    add({
      key: "dead letters",
      icon: "inbox",
      tone: "warning",
      title: `${counted(data.dead_letters, "dead letter waits", "dead letters wait")} for a decision`,
      detail: "Tasks that were given up. Requeue or discard them.",
      to: "/queues?tab=dead-letters",
      action: "Show them",
    });
  }
  if (data.callbacks > 0) {
    add({
      key: "callbacks",
      icon: "bell",
      tone: "warning",
      title: `${counted(data.callbacks, "notification does", "notifications do")} not reach its receiver`,
      detail: "Callbacks that were given up or have failed several times.",
      to: "/settings?tab=callbacks",
      action: "Show them",
    });
  }
  return items;
}

export function NeedsAttention({
  first,
  hours,
  window,
}: {
  first: FirstRead;
  hours: number;
  window: string;
}): JSX.Element {
  const attention = useResource(
    (signal) =>
      first.part("attention", () => ok(api.GET("/api/v1/attention", { params: { query: { hours } }, signal }))),
    [hours],
    { live: ["jobs"], everySeconds: 20, clears: false },
  );
  const data = attention.data.value;
  const aside = data ? (
    <>
      checked <Time at={data.checked_at} />
    </>
  ) : null;
  return (
    <Section title="Needs attention" aside={aside} flush class="dashboard-attention">
      <Resolved
        resource={attention}
        what="what needs attention"
        isEmpty={(one) => itemsOf(one, window).length === 0}
        empty={
          <p class="dashboard-fine tone-good">
            <Icon name="check" /> Nothing needs you: no failures in this period, every queue has a worker, and no
            decision is waiting.
          </p>
        }
      >
        {(one) => (
          <>
            <ul>
              {itemsOf(one, window).map((item) => (
                <li key={item.key} class={`attention tone-${item.tone}`}>
                  <Icon name={item.icon} />
                  <div class="attention-text">
                    <p>{item.title}</p>
                    {item.detail ? <p class="attention-detail">{item.detail}</p> : null}
                  </div>
                  <span class="attention-at">{item.at}</span>
                  <Link to={item.to} class="button">
                    {item.action}
                  </Link>
                </li>
              ))}
            </ul>
            {one.failures.length >= 20 ? (
              <p class="dashboard-more">
                <Link to={`/jobs?q=status:failed+finished:${window}`}>
                  All {countText(one.failed_jobs)} failed jobs
                </Link>
              </p>
            ) : null}
          </>
        )}
      </Resolved>
    </Section>
  );
}

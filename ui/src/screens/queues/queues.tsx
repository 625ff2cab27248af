/** What waits in which queue, who serves it, how fast it empties; and what was given up. */
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import {
  api,
  counted,
  countText,
  durationText,
  Link,
  type Model,
  ok,
  Resolved,
  shortId,
  to,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { Empty, Icon, Page, type Point, Section, Sparkline, Status, Table, Tabs, Time } from "~/widgets";
import { DeadLetters } from "./dead-letters";

type Queue = Model<"QueueStatus">;

const SAMPLES = 40;

export default function Queues(): JSX.Element {
  useTitle("Queues");
  const queues = useResource(async (signal) => (await ok(api.GET("/api/v1/queues/status", { signal }))).queues, [], {
    live: ["jobs"],
    everySeconds: 3,
  });
  const samples = useSamples(queues.data.value, queues.readAt.value);
  const list = queues.data.value ?? [];
  const letters = list.reduce((sum, queue) => sum + queue.dead_letters, 0);
  return (
    <Page title="Queues" lead="Tasks that wait for a worker, and tasks that were given up.">
      <Alerts queues={list} />
      <Tabs
        label="Queues and dead letters"
        tabs={[
          {
            id: "queues",
            label: "Queues",
            count: list.length || undefined,
            panel: () => (
              <Resolved
                resource={queues}
                what="the queues"
                isEmpty={(data) => data.length === 0}
                empty={
                  <Empty title="There are no queues" icon="queue">
                    Queues appear as soon as a worker serves one or a task waits in one. Start a worker with{" "}
                    <code>rmhdag worker --queue NAME</code>.
                  </Empty>
                }
              >
                {(data) => <QueueList queues={data} samples={samples} />}
              </Resolved>
            ),
          },
          {
            id: "dead-letters",
            label: "Dead letters",
            count: letters || undefined,
            panel: () => <DeadLetters queues={list} onChange={() => void queues.reload()} />,
          },
        ]}
      />
    </Page>
  );
}

/** What the page has seen since it was opened: the API keeps no history of depths. */
function useSamples(queues: readonly Queue[] | undefined, readAt: number | undefined): Map<string, Point[]> {
  const samples = useRef(new Map<string, Point[]>());
  const last = useRef<number | undefined>(undefined);
  if (queues && readAt !== undefined && readAt !== last.current) {
    last.current = readAt;
    const label = new Date(readAt).toLocaleTimeString("en-GB");
    for (const queue of queues) {
      const points = samples.current.get(queue.queue) ?? [];
      samples.current.set(queue.queue, [...points, { label, value: queue.waiting }].slice(-SAMPLES));
    }
  }
  return samples.current;
}

function Alerts({ queues }: { queues: readonly Queue[] }): JSX.Element | null {
  const unserved = queues.filter((queue) => queue.waiting > 0 && queue.workers === 0);
  if (unserved.length === 0) return null;
  return (
    <div class="stack" role="status">
      {unserved.map((queue) => (
        <p key={queue.queue} class="notice tone-bad">
          <Icon name="warning" />
          <span>
            <strong>
              {counted(queue.waiting, "task waits", "tasks wait")} in {queue.queue}, and no worker serves it.
            </strong>{" "}
            Nothing of it runs until one is started: <code>rmhdag worker --queue {queue.queue}</code>
          </span>
        </p>
      ))}
    </div>
  );
}

/** The verdict on a queue, in words. */
function verdictOf(queue: Queue): [status: string, word: string] {
  if (queue.waiting > 0 && queue.workers === 0) return ["failed", "no worker"];
  if (queue.waiting === 0 && queue.running === 0) return ["idle", queue.workers ? "empty" : "unused"];
  if (queue.waiting === 0) return ["healthy", "keeps up"];
  if (queue.drain_seconds !== null && queue.drain_seconds !== undefined) return ["running", "emptying"];
  return ["degraded", (queue.in_per_minute ?? 0) > (queue.out_per_minute ?? 0) ? "growing" : "waiting"];
}

const rateText = (rate: number | null | undefined): string =>
  rate === null || rate === undefined ? "–" : `${rate >= 10 || rate === 0 ? Math.round(rate) : rate.toFixed(1)}/min`;

function drainText(queue: Queue): string {
  if (queue.waiting === 0) return "–";
  if (queue.workers === 0) return "never";
  return queue.drain_seconds ? `≈ ${durationText(queue.drain_seconds)}` : "not at this pace";
}

function QueueList({ queues, samples }: { queues: readonly Queue[]; samples: Map<string, Point[]> }): JSX.Element {
  const [chosen] = useQuery("queue");
  const shown = queues.find((queue) => queue.queue === chosen);
  return (
    <div class="queues">
      <Section title="Queues" aside={<span>paces are averages of the last 5 minutes</span>} flush>
        <Table<Queue>
          label="Queues"
          rows={queues}
          rowKey={(queue) => queue.queue}
          rowTo={(queue) => `/queues?queue=${encodeURIComponent(queue.queue)}`}
          columns={[
            {
              id: "queue",
              title: "Queue",
              cell: (queue) => (
                <Link
                  to={`/queues?queue=${encodeURIComponent(queue.queue)}`}
                  aria-current={queue === shown ? "true" : undefined}
                >
                  {queue.queue}
                </Link>
              ),
            },
            {
              id: "state",
              title: "State",
              width: "7rem",
              cell: (queue) => {
                const [status, word] = verdictOf(queue);
                return <Status status={status} word={word} look="plain" />;
              },
            },
            { id: "waiting", title: "Waiting", width: "4.5rem", align: "right", cell: (q) => countText(q.waiting) },
            {
              id: "oldest",
              title: "Oldest",
              width: "5rem",
              align: "right",
              hide: "narrow",
              cell: (queue) => durationText(queue.oldest_seconds),
            },
            {
              id: "running",
              title: "Running",
              width: "5rem",
              align: "right",
              hide: "narrow",
              cell: (queue) => countText(queue.running),
            },
            {
              id: "in",
              title: "In",
              width: "5rem",
              align: "right",
              hide: "medium",
              cell: (queue) => rateText(queue.in_per_minute),
            },
            {
              id: "out",
              title: "Out",
              width: "5rem",
              align: "right",
              hide: "medium",
              cell: (queue) => rateText(queue.out_per_minute),
            },
            {
              id: "workers",
              title: "Workers",
              width: "7.5rem",
              align: "right",
              hide: "narrow",
              cell: (queue) =>
                queue.workers ? `${countText(queue.workers)} · ${counted(queue.slots, "slot")}` : "none",
            },
            { id: "drain", title: "Empty in", width: "7.5rem", align: "right", hide: "medium", cell: drainText },
            {
              id: "letters",
              title: "Dead letters",
              width: "6rem",
              align: "right",
              hide: "medium",
              cell: (queue) =>
                queue.dead_letters ? (
                  <Link to={`/queues?tab=dead-letters&queue=${encodeURIComponent(queue.queue)}`}>
                    {countText(queue.dead_letters)}
                  </Link>
                ) : (
                  "0"
                ),
            },
          ]}
        />
      </Section>
      {shown ? (
        <QueueDetail queue={shown} samples={samples.get(shown.queue) ?? []} />
      ) : chosen ? (
        <Empty title={`There is no queue ${chosen}`} icon="queue" action={<Link to="/queues">Show all queues</Link>}>
          It has neither tasks nor workers, and no setting names it.
        </Empty>
      ) : null}
    </div>
  );
}

function QueueDetail({ queue, samples }: { queue: Queue; samples: readonly Point[] }): JSX.Element {
  const name = queue.queue;
  const waiting = useResource(
    async (signal) => {
      const query = { queue: name, status: ["waiting", "delayed"] as ("waiting" | "delayed")[], limit: 20 };
      return (await ok(api.GET("/api/v1/tasks", { params: { query }, signal }))).tasks;
    },
    [name],
    { live: ["jobs"], everySeconds: 5 },
  );
  const workers = useResource(
    async (signal) =>
      (await ok(api.GET("/api/v1/workers", { signal }))).workers.filter(
        (worker) => worker.alive && worker.queues.includes(name),
      ),
    [name],
    { everySeconds: 5 },
  );
  return (
    <Section
      title={`Queue ${name}`}
      aside={<Link to={`/tasks?queue=${encodeURIComponent(name)}`}>All tasks of this queue</Link>}
    >
      <div class="queue-detail">
        <div class="stack">
          <h3>Waiting now, since you opened this page</h3>
          <Sparkline title={`Tasks that wait in ${name}`} points={samples} unit="tasks" width={240} height={48} />
          <p class="soft">
            {queue.attention ??
              (queue.waiting
                ? `${counted(queue.waiting, "task waits", "tasks wait")} for a free slot of ${counted(queue.workers, "worker")}.`
                : "Nothing waits here.")}{" "}
            {queue.delayed ? `${counted(queue.delayed, "task waits", "tasks wait")} for its next attempt.` : ""}
          </p>
        </div>
        <div class="stack">
          <h3>Workers</h3>
          <Resolved
            resource={workers}
            what="the workers"
            isEmpty={(list) => list.length === 0}
            empty={
              <p class="soft">
                None. Start one: <code>rmhdag worker --queue {name}</code>
              </p>
            }
          >
            {(list) => (
              <ul class="queue-lines">
                {list.map((worker) => (
                  <li key={worker.worker_id}>
                    <Link to={`/nodes?worker=${worker.worker_id}`}>
                      {worker.host}:{worker.process_id}
                    </Link>{" "}
                    <span class="faint">
                      {counted(worker.tasks_held, "task")} in {counted(worker.slots, "slot")}
                      {worker.draining ? ", draining" : ""}
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </Resolved>
        </div>
        <div class="stack">
          <h3>Waiting tasks of the newest jobs</h3>
          <Resolved
            resource={waiting}
            what="the tasks"
            isEmpty={(list) => list.length === 0}
            empty={<p class="soft">None.</p>}
          >
            {(list) => (
              <ul class="queue-lines">
                {list.map((task) => (
                  <li key={`${task.task_id} ${task.lease_epoch}`}>
                    <Link to={`${to`/jobs/${task.job_id}`}?node=${encodeURIComponent(task.node_id)}`}>
                      {task.node_id}
                    </Link>{" "}
                    <span class="faint">
                      job {shortId(task.job_id)} · {task.status} · <Time at={task.created_at} />
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </Resolved>
        </div>
      </div>
    </Section>
  );
}

/** Tasks across jobs: which are slow, which fail again and again, which wait; and how each handler fares. */
import type { JSX } from "preact";
import {
  api,
  counted,
  countText,
  durationText,
  Link,
  type Model,
  now,
  ok,
  percentText,
  Resolved,
  setQuery,
  shortId,
  to,
  useQuery,
  useQueryList,
  useResource,
  useTitle,
} from "~/core";
import { Button, Chip, type Column, Empty, Page, Section, Status, Table, Tabs, Time } from "~/widgets";

type Task = Model<"TaskSummary">;
type State = Task["status"];

const MOST = 500;
const STATES: [State, string][] = [
  ["waiting", "waiting"],
  ["delayed", "waits to retry"],
  ["running", "running"],
  ["failed", "failed"],
  ["lost", "worker lost"],
  ["completed", "completed"],
];
/** The vocabulary of nodes has other words for the same. */
const lookOfState = (state: State): string =>
  state === "waiting" ? "dispatched" : state === "delayed" ? "pending" : state;
const ORDERS = {
  newest: "Newest jobs",
  slowest: "Slowest",
  retried: "Most retried",
  waiting: "Waiting longest",
} as const;
type Order = keyof typeof ORDERS;

/** How long it has run, or ran. */
function seconds(task: Task): number {
  if (task.duration_ms !== null && task.duration_ms !== undefined) return task.duration_ms / 1000;
  return task.started_at ? (now.peek() - Date.parse(task.started_at)) / 1000 : -1;
}
const waited = (task: Task): number =>
  task.created_at && !task.started_at ? (now.peek() - Date.parse(task.created_at)) / 1000 : -1;
const tries = (task: Task): number => task.attempt - 1 + task.lease_losses;

function sorted(tasks: readonly Task[], order: Order): readonly Task[] {
  const by: Record<Order, ((task: Task) => number) | undefined> = {
    newest: undefined,
    slowest: seconds,
    retried: tries,
    waiting: waited,
  };
  const measure = by[order];
  if (!measure) return tasks;
  const least = order === "retried" ? 1 : 0;
  return tasks.filter((task) => measure(task) >= least).sort((a, b) => measure(b) - measure(a));
}

export default function Tasks(): JSX.Element {
  useTitle("Tasks");
  const [states, setStates] = useQueryList("status");
  const [handler] = useQuery("handler");
  const [queue] = useQuery("queue");
  const [order] = useQuery("order", "newest");
  const tasks = useResource(
    (signal) => {
      const query = {
        limit: MOST,
        ...(states.length ? { status: states as State[] } : {}),
        ...(handler ? { handler } : {}),
        ...(queue ? { queue } : {}),
      };
      return ok(api.GET("/api/v1/tasks", { params: { query }, signal }));
    },
    [states.join(), handler, queue],
    { live: ["jobs"], everySeconds: 5, clears: false },
  );
  const chosen: Order = order in ORDERS ? (order as Order) : "newest";
  const isFiltered = states.length > 0 || Boolean(handler || queue);
  const toggle = (state: string) =>
    setStates(states.includes(state) ? states.filter((one) => one !== state) : [...states, state]);
  return (
    <Page
      title="Tasks"
      wide
      lead={`What workers run, across all jobs: the ${MOST} tasks of the newest jobs that match. Figures are about these.`}
    >
      <div class="chips">
        {STATES.map(([state, word]) => (
          <Chip key={state} chosen={states.includes(state)} onToggle={() => toggle(state)}>
            <Status status={lookOfState(state)} word={word} look="plain" />
          </Chip>
        ))}
        {handler ? <Chip onRemove={() => setQuery({ handler: null })}>handler {handler}</Chip> : null}
        {queue ? <Chip onRemove={() => setQuery({ queue: null })}>queue {queue}</Chip> : null}
      </div>
      <Resolved
        resource={tasks}
        what="the tasks"
        isEmpty={(page) => page.tasks.length === 0}
        empty={
          isFiltered ? (
            <Empty
              title="No task matches"
              icon="search"
              action={
                <Button onClick={() => setQuery({ status: [], handler: null, queue: null })}>Clear the filter</Button>
              }
            />
          ) : (
            <Empty title="No tasks yet" icon="task" action={<Link to="/submit">Submit a job</Link>}>
              Tasks appear as soon as a job runs.
            </Empty>
          )
        }
      >
        {(page) => (
          <Tabs
            label="Tasks or handlers"
            tabs={[
              {
                id: "tasks",
                label: "Tasks",
                count: countText(page.tasks.length) + (page.next_cursor ? "+" : ""),
                panel: () => <TaskList tasks={page.tasks} order={chosen} />,
              },
              { id: "handlers", label: "By handler", panel: () => <Handlers tasks={page.tasks} /> },
            ]}
          />
        )}
      </Resolved>
    </Page>
  );
}

function TaskList({ tasks, order }: { tasks: readonly Task[]; order: Order }): JSX.Element {
  const rows = sorted(tasks, order);
  return (
    <div class="tasks">
      <div class="chips" role="group" aria-label="Order">
        {(Object.keys(ORDERS) as Order[]).map((one) => (
          <Chip key={one} chosen={one === order} onToggle={() => setQuery({ order: one === "newest" ? null : one })}>
            {ORDERS[one]}
          </Chip>
        ))}
      </div>
      <Section title={ORDERS[order]} aside={<span>{counted(rows.length, "task")}</span>} flush>
        {rows.length === 0 ? (
          <Empty title={order === "retried" ? "No task was tried twice" : "No task waits"} icon="check" />
        ) : (
          <Table<Task>
            label="Tasks"
            rows={rows}
            rowKey={(task) => `${task.task_id} ${task.lease_epoch}`}
            rowTo={taskTo}
            columns={COLUMNS}
          />
        )}
      </Section>
    </div>
  );
}

const taskTo = (task: Task): string => `${to`/jobs/${task.job_id}`}?node=${encodeURIComponent(task.node_id)}`;

const COLUMNS: Column<Task>[] = [
  {
    id: "state",
    title: "State",
    width: "8rem",
    cell: (task) => (
      <Status
        status={lookOfState(task.status)}
        word={task.status === "delayed" ? "waits to retry" : task.status}
        look="plain"
      />
    ),
  },
  {
    id: "node",
    title: "Task",
    cell: (task) => (
      <>
        <Link to={taskTo(task)}>{task.node_id}</Link>{" "}
        <span class="faint">{task.error_message ?? task.progress_message}</span>
      </>
    ),
  },
  { id: "handler", title: "Handler", width: "9rem", hide: "medium", cell: (task) => task.handler ?? "–" },
  { id: "queue", title: "Queue", width: "7rem", hide: "medium", cell: (task) => task.queue ?? "–" },
  {
    id: "tries",
    title: "Retries",
    width: "5rem",
    align: "right",
    hide: "narrow",
    cell: (task) => countText(tries(task)),
  },
  {
    id: "duration",
    title: "Duration",
    width: "6rem",
    align: "right",
    cell: (task) => {
      const time = seconds(task);
      return time < 0
        ? waited(task) >= 0
          ? `waits ${durationText(Math.round(waited(task)))}`
          : "–"
        : durationText(time);
    },
  },
  {
    id: "worker",
    title: "Worker",
    width: "6rem",
    hide: "medium",
    cell: (task) =>
      task.worker_id ? <Link to={`/nodes?show=all&worker=${task.worker_id}`}>{shortId(task.worker_id)}</Link> : "–",
  },
  {
    id: "job",
    title: "Job",
    width: "6rem",
    hide: "narrow",
    cell: (task) => <Link to={to`/jobs/${task.job_id}`}>{shortId(task.job_id)}</Link>,
  },
  {
    id: "at",
    title: "When",
    width: "6rem",
    hide: "narrow",
    cell: (task) => <Time at={task.reported_at ?? task.started_at ?? task.created_at} />,
  },
];

interface Figures {
  handler: string;
  tasks: number;
  finished: number;
  failed: number;
  p50: number | null;
  p95: number | null;
}

/** The value below which this part of them lies; of few values, the next larger one. */
function percentile(values: readonly number[], part: number): number | null {
  return values.length === 0
    ? null
    : (values[Math.min(values.length - 1, Math.ceil(part * values.length) - 1)] ?? null);
}

function figuresOf(tasks: readonly Task[]): Figures[] {
  const groups = new Map<string, Task[]>();
  for (const task of tasks) {
    const handler = task.handler ?? "unknown";
    groups.set(handler, [...(groups.get(handler) ?? []), task]);
  }
  return [...groups]
    .map(([handler, group]) => {
      const finished = group.filter((task) => task.status === "completed" || task.status === "failed");
      const times = finished
        .filter((task) => typeof task.duration_ms === "number")
        .map((task) => (task.duration_ms ?? 0) / 1000)
        .sort((a, b) => a - b);
      return {
        handler,
        tasks: group.length,
        finished: finished.length,
        failed: finished.filter((task) => task.status === "failed").length,
        p50: percentile(times, 0.5),
        p95: percentile(times, 0.95),
      };
    })
    .sort((a, b) => (b.p95 ?? 0) - (a.p95 ?? 0));
}

function Handlers({ tasks }: { tasks: readonly Task[] }): JSX.Element {
  return (
    <div class="tasks">
      <Section title="Handlers" aside={<span>slowest first, of the tasks that are shown</span>} flush>
        <Table<Figures>
          label="Handlers"
          rows={figuresOf(tasks)}
          rowKey={(line) => line.handler}
          rowTo={(line) => `/tasks?handler=${encodeURIComponent(line.handler)}`}
          columns={[
            {
              id: "handler",
              title: "Handler",
              cell: (line) => <Link to={`/tasks?handler=${encodeURIComponent(line.handler)}`}>{line.handler}</Link>,
            },
            {
              id: "tasks",
              title: "Tasks",
              width: "5rem",
              align: "right",
              hide: "narrow",
              cell: (line) => countText(line.tasks),
            },
            {
              id: "failed",
              title: "Failed",
              width: "5rem",
              align: "right",
              cell: (line) => (line.finished ? percentText((100 * line.failed) / line.finished) : "–"),
            },
            {
              id: "p50",
              title: "p50",
              width: "6rem",
              align: "right",
              hide: "narrow",
              cell: (line) => durationText(line.p50),
            },
            { id: "p95", title: "p95", width: "6rem", align: "right", cell: (line) => durationText(line.p95) },
          ]}
        />
      </Section>
    </div>
  );
}

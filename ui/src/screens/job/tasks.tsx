/** Every attempt of every task of the job. */
import type { JSX } from "preact";
import { api, durationText, type Model, ok, Resolved, setQuery, useQueryList, useResource } from "~/core";
import { Chip, Empty, Status, Table, Time } from "~/widgets";
import type { JobStore } from "./store";

type Task = Model<"TaskSummary">;
type TaskState = Model<"TaskState">;

const STATES: readonly TaskState[] = ["failed", "running", "waiting", "delayed", "completed", "lost", "cancelled"];
const MOST = 2_000;

/** Pages until there are `most`; tasks of a job that has ended never change. */
export async function readTasks(
  jobId: string,
  states: readonly TaskState[],
  signal: AbortSignal,
  most = MOST,
): Promise<{ tasks: Task[]; isWhole: boolean }> {
  const tasks: Task[] = [];
  let cursor: string | undefined;
  do {
    const query = {
      job_id: jobId,
      limit: 500,
      ...(states.length ? { status: [...states] } : {}),
      ...(cursor ? { cursor } : {}),
    };
    const page: Model<"TaskPage"> = await ok(api.GET("/api/v1/tasks", { params: { query }, signal }));
    tasks.push(...page.tasks);
    cursor = page.next_cursor ?? undefined;
  } while (cursor && tasks.length < most);
  return { tasks, isWhole: cursor === undefined };
}

export function TaskTable({ store }: { store: JobStore }): JSX.Element {
  const [states, setStates] = useQueryList("task");
  const tasks = useResource(
    (signal) => readTasks(store.jobId, states as TaskState[], signal, 1_000),
    [store.jobId, states],
    {
      live: store.isOpen.value ? [`job:${store.jobId}`] : [],
      clears: false,
    },
  );
  return (
    <section class="card card-flush" aria-label="Tasks">
      <div class="pane-tools chips" role="group" aria-label="States">
        {STATES.map((state) => (
          <Chip
            key={state}
            chosen={states.includes(state)}
            onToggle={() =>
              setStates(states.includes(state) ? states.filter((one) => one !== state) : [...states, state])
            }
          >
            {state}
          </Chip>
        ))}
      </div>
      <Resolved
        resource={tasks}
        what="the tasks"
        isEmpty={(page) => page.tasks.length === 0}
        empty={
          <Empty
            title={states.length ? "No task in these states" : "No task has been sent to a worker yet"}
            icon="task"
          >
            A task is one attempt of a node on a worker. Conditions, fan-ins and approvals have none.
          </Empty>
        }
      >
        {(page) => (
          <>
            <Table<Task>
              label="Tasks of the job"
              rows={page.tasks}
              rowKey={(task) => `${task.task_id} ${task.lease_epoch}`}
              rowTo={(task) => `/jobs/${store.jobId}?node=${encodeURIComponent(task.node_id)}`}
              columns={[
                { id: "status", title: "State", width: "8rem", cell: (task) => <Status status={task.status} /> },
                { id: "node", title: "Node", cell: (task) => <span class="mono">{task.node_id}</span> },
                {
                  id: "attempt",
                  title: "Attempt",
                  width: "5rem",
                  align: "right",
                  hide: "narrow",
                  cell: (task) => task.attempt,
                },
                {
                  id: "started",
                  title: "Started",
                  width: "7rem",
                  hide: "narrow",
                  cell: (task) => <Time at={task.started_at ?? task.claimed_at} exact="clock" />,
                },
                {
                  id: "duration",
                  title: "Duration",
                  width: "6rem",
                  align: "right",
                  cell: (task) =>
                    task.duration_ms === null || task.duration_ms === undefined
                      ? "–"
                      : durationText(task.duration_ms / 1000),
                },
                { id: "queue", title: "Queue", width: "9rem", hide: "medium", cell: (task) => task.queue ?? "–" },
                {
                  id: "worker",
                  title: "Worker",
                  width: "6rem",
                  hide: "medium",
                  cell: (task) => (
                    <span class="mono" title={task.worker_id ?? ""}>
                      {task.worker_id?.slice(-8) ?? "–"}
                    </span>
                  ),
                },
                {
                  id: "message",
                  title: "Message",
                  hide: "narrow",
                  cell: (task) => (
                    <span class="cut" title={task.error_message ?? task.progress_message ?? ""}>
                      {task.error_message ?? task.progress_message ?? ""}
                    </span>
                  ),
                },
              ]}
            />
            {page.isWhole ? null : (
              <p class="pane-note small faint">
                The newest {page.tasks.length} tasks.{" "}
                <button type="button" class="link" onClick={() => setQuery({ tab: "fan-out" })}>
                  The fan-out
                </button>{" "}
                shows all children.
              </p>
            )}
          </>
        )}
      </Resolved>
    </section>
  );
}

/** The processes that do the work: who lives, what each holds, which version, and what was taken over from whom. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import {
  api,
  bytesText,
  counted,
  countText,
  durationText,
  Link,
  type Model,
  may,
  now,
  ok,
  Resolved,
  shortId,
  to,
  toast,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { Button, Chip, confirm, Empty, Facts, Icon, Page, ProgressBar, Section, Status, Time } from "~/widgets";
import { Takeovers } from "./takeovers";

type Worker = Model<"WorkerSummary">;
type Orchestrator = Model<"OrchestratorSummary">;
type Task = Model<"TaskSummary">;

async function readAll(signal: AbortSignal) {
  const [workers, orchestrators] = await Promise.all([
    ok(api.GET("/api/v1/workers", { params: { query: { tasks: true } }, signal })),
    ok(api.GET("/api/v1/orchestrators", { signal })),
  ]);
  const tasks = new Map<string, Task[]>();
  for (const task of workers.tasks ?? []) {
    if (task.worker_id) tasks.set(task.worker_id, [...(tasks.get(task.worker_id) ?? []), task]);
  }
  return { workers: workers.workers, orchestrators: orchestrators.orchestrators, tasks };
}

export default function Processes(): JSX.Element {
  useTitle("Workers and orchestrators");
  const [shown, show] = useQuery("show", "alive");
  const processes = useResource(readAll, [], { live: ["jobs"], everySeconds: 3 });
  return (
    <Page
      title="Workers and orchestrators"
      lead="Workers run tasks; orchestrators decide what runs next. Each sends a heartbeat every few seconds."
      actions={
        <div class="chips">
          <Chip chosen={shown === "alive"} onToggle={() => show(null)}>
            Alive
          </Chip>
          <Chip chosen={shown === "all"} onToggle={() => show("all")}>
            Also those that are gone
          </Chip>
        </div>
      }
    >
      <Resolved resource={processes} what="the processes">
        {(data) => {
          const readAt = processes.readAt.value ?? now.value;
          const isShown = (one: { alive: boolean }) => one.alive || shown === "all";
          const reload = () => void processes.reload();
          return (
            <>
              <Banner workers={data.workers} orchestrators={data.orchestrators} />
              <Group title="Workers" lines={data.workers} isShown={isShown} empty={<NoWorker />}>
                {(worker) => (
                  <WorkerCard
                    key={worker.worker_id}
                    worker={worker}
                    tasks={data.tasks.get(worker.worker_id) ?? []}
                    readAt={readAt}
                    reload={reload}
                  />
                )}
              </Group>
              <Group title="Orchestrators" lines={data.orchestrators} isShown={isShown} empty={<NoOrchestrator />}>
                {(one) => <OrchestratorCard key={one.owner_id} one={one} readAt={readAt} reload={reload} />}
              </Group>
            </>
          );
        }}
      </Resolved>
      <Takeovers />
    </Page>
  );
}

const NoWorker = () => (
  <Empty title="No worker is alive" icon="node">
    Nothing can run. Start one with <code>rmhdag worker --queue NAME</code>.
  </Empty>
);
const NoOrchestrator = () => (
  <Empty title="No orchestrator is alive" icon="node">
    Jobs wait until one is started: <code>rmhdag orchestrator</code>.
  </Empty>
);

function Banner({ workers, orchestrators }: { workers: Worker[]; orchestrators: Orchestrator[] }): JSX.Element | null {
  const versions = new Map<string, number>();
  for (const one of [...workers, ...orchestrators]) {
    if (one.alive) versions.set(one.version, (versions.get(one.version) ?? 0) + 1);
  }
  if (versions.size < 2) return null;
  const words = [...versions].map(([version, count]) => `${counted(count, "process", "processes")} of ${version}`);
  return (
    <p class="notice tone-warning" role="status">
      <Icon name="warning" />
      <span>
        <strong>Processes of different versions are running:</strong> {words.join(", ")}. This is fine during an
        upgrade; otherwise bring all of them to one version.
      </span>
    </p>
  );
}

function Group<T extends { alive: boolean }>(props: {
  title: string;
  lines: readonly T[];
  isShown: (line: T) => boolean;
  empty: JSX.Element;
  children: (line: T) => ComponentChildren;
}): JSX.Element {
  const alive = props.lines.filter((line) => line.alive).length;
  const shown = props.lines.filter(props.isShown).sort((a, b) => Number(b.alive) - Number(a.alive));
  const gone = props.lines.length - alive;
  return (
    <Section
      title={props.title}
      aside={
        <span>
          {alive} alive{gone ? `, ${gone} gone` : ""}
        </span>
      }
      flush
    >
      {alive === 0 ? props.empty : null}
      {shown.length ? <ul class="processes">{shown.map(props.children)}</ul> : null}
    </Section>
  );
}

/** Ticks between two readings: the age that the server gave, and what has passed since. */
function Heartbeat({ seconds, readAt, alive }: { seconds: number; readAt: number; alive: boolean }): JSX.Element {
  const age = seconds + Math.max(0, now.value - readAt) / 1000;
  return (
    <span class="process-beat" data-testid="heartbeat">
      {alive ? <i class="process-pulse" aria-hidden="true" /> : null}
      {alive ? `heartbeat ${Math.floor(age)} s ago` : `silent for ${durationText(age)}`}
    </span>
  );
}

function Card(props: {
  id: string;
  name: string;
  isChosen: boolean;
  status: string;
  beat: JSX.Element;
  actions: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (props.isChosen) element.current?.scrollIntoView({ block: "nearest" });
  }, [props.isChosen]);
  return (
    <li ref={element} class="process" data-process={props.id} aria-current={props.isChosen ? "true" : undefined}>
      <div class="process-head">
        <strong>{props.name}</strong>
        <Status status={props.status} />
        {props.beat}
        <span class="process-actions">{props.actions}</span>
      </div>
      {props.children}
    </li>
  );
}

function WorkerCard(props: {
  worker: Worker;
  tasks: readonly Task[];
  readAt: number;
  reload: () => void;
}): JSX.Element {
  const { worker, tasks, readAt, reload } = props;
  const [chosen] = useQuery("worker");
  const drain = () =>
    confirm({
      title: `Drain worker ${worker.host}:${worker.process_id}?`,
      preview: (
        <p>
          It takes no more tasks, finishes or gives back{" "}
          {worker.tasks_held ? `the ${counted(worker.tasks_held, "task")} that it has` : "what it has"} within its stop
          time, and ends. Others that serve {worker.queues.join(", ")} take the rest. To undo it, start a new worker.
        </p>
      ),
      action: "Drain",
      danger: true,
      run: async () => {
        const path = { worker_id: worker.worker_id };
        await ok(api.POST("/api/v1/workers/{worker_id}/drain", { params: { path } }));
        toast({ kind: "done", text: "The worker drains; it learns of it with its next heartbeat." });
        reload();
      },
    });
  const memory = worker.stats.memory_bytes;
  return (
    <Card
      id={worker.worker_id}
      name={`${worker.host}:${worker.process_id}`}
      isChosen={chosen === worker.worker_id}
      status={!worker.alive ? "dead" : worker.draining ? "draining" : "active"}
      beat={<Heartbeat seconds={worker.silent_seconds} readAt={readAt} alive={worker.alive} />}
      actions={
        worker.alive && !worker.draining && (may("admin") || may("platform")) ? (
          <Button icon="pause" onClick={drain}>
            Drain
          </Button>
        ) : null
      }
    >
      {worker.alive ? null : (
        <p class="soft">
          {worker.tasks_held
            ? `It still holds ${counted(worker.tasks_held, "task")}; they go back to their queues.`
            : "What it had was given back to its queues; nothing is left with it."}
        </p>
      )}
      <div class="process-slots">
        <ProgressBar
          label="Slots"
          total={worker.slots}
          shares={[{ count: Math.min(worker.tasks_held, worker.slots), tone: "active", word: "busy" }]}
        />
        <span class="num small">
          {/* Light tasks share a process, so a worker may hold more tasks than it has slots. */}
          {worker.tasks_held <= worker.slots
            ? `${worker.tasks_held} of ${counted(worker.slots, "slot")} busy`
            : `${counted(worker.tasks_held, "task")} in ${counted(worker.slots, "slot")}`}
        </span>
      </div>
      <Facts
        items={[
          ["Queues", worker.queues.join(", ")],
          ["Version", worker.version],
          ["Memory", typeof memory === "number" ? bytesText(memory) : null],
          ["Tasks done", typeof worker.stats.tasks_done === "number" ? countText(worker.stats.tasks_done) : null],
          ["Started", <Time key="s" at={worker.started_at} />],
          ["Id", <code key="i">{shortId(worker.worker_id)}</code>],
        ]}
      />
      {tasks.length ? (
        <ul class="process-tasks">
          {tasks.map((task) => (
            <li key={`${task.task_id} ${task.lease_epoch}`}>
              <Status status={task.status} look="icon" />{" "}
              <Link to={`${to`/jobs/${task.job_id}`}?node=${encodeURIComponent(task.node_id)}`}>{task.node_id}</Link>{" "}
              <span class="faint">
                {task.handler} · job {shortId(task.job_id)} · <Time at={task.started_at ?? task.claimed_at} />
                {task.progress_percent ? ` · ${Math.floor(task.progress_percent)} %` : ""}
              </span>
            </li>
          ))}
        </ul>
      ) : null}
    </Card>
  );
}

function OrchestratorCard(props: { one: Orchestrator; readAt: number; reload: () => void }): JSX.Element {
  const { one, readAt, reload } = props;
  const [chosen] = useQuery("orchestrator");
  const drain = () =>
    confirm({
      title: `Drain orchestrator ${one.host}:${one.process_id}?`,
      preview: (
        <p>
          It hands {counted(one.jobs_owned, "job")} over to the other orchestrators and ends. Tasks that run go on. If
          there is no other orchestrator, jobs wait until one is started.
        </p>
      ),
      action: "Drain",
      danger: true,
      run: async () => {
        const path = { owner_id: one.owner_id };
        await ok(api.POST("/api/v1/orchestrators/{owner_id}/drain", { params: { path } }));
        toast({ kind: "done", text: "The orchestrator drains; it learns of it with its next heartbeat." });
        reload();
      },
    });
  const figure = (name: string) => {
    const value = one.stats[name];
    return typeof value === "number" ? countText(value) : null;
  };
  const cycle = one.stats.cycle_ms_p99;
  return (
    <Card
      id={one.owner_id}
      name={`${one.host}:${one.process_id}`}
      isChosen={chosen === one.owner_id}
      status={!one.alive ? "dead" : one.stopping ? "draining" : "active"}
      beat={<Heartbeat seconds={one.silent_seconds} readAt={readAt} alive={one.alive} />}
      actions={
        one.alive && !one.stopping && may("platform") ? (
          <Button icon="pause" onClick={drain}>
            Drain
          </Button>
        ) : null
      }
    >
      {one.alive ? null : (
        <p class="soft">
          {one.jobs_owned
            ? `It still owns ${counted(one.jobs_owned, "job")}; another orchestrator takes them over.`
            : "All its jobs were handed or taken over; nothing is left with it."}
        </p>
      )}
      <Facts
        items={[
          ["Jobs owned", countText(one.jobs_owned)],
          ["Version", one.version],
          ["Jobs taken over", figure("jobs_reclaimed")],
          ["Jobs ended", figure("jobs_ended")],
          ["Tasks dispatched", figure("tasks_dispatched")],
          ["Cycle p99", typeof cycle === "number" ? durationText(cycle / 1000) : null],
          ["Started", <Time key="s" at={one.started_at} />],
          ["Id", <code key="i">{shortId(one.owner_id)}</code>],
        ]}
      />
    </Card>
  );
}

/** One job: how it stands and why, then its panes. A failed job opens on what failed. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  ageText,
  counted,
  countText,
  durationText,
  Link,
  may,
  now,
  type ScreenProps,
  setQuery,
  shortId,
  to,
  useKeys,
  useQuery,
  useTitle,
} from "~/core";
import {
  CopyButton,
  Duration,
  Empty,
  ErrorBox,
  Facts,
  Icon,
  JsonTree,
  LabelList,
  Loading,
  NoPermission,
  Page,
  ProgressBar,
  Split,
  Status,
  sharesOf,
  type Tab,
  Tabs,
  Time,
  useMedia,
} from "~/widgets";
import { cancelJob, JobActions, RerunDialog, retryFailed } from "./actions";
import { Definition } from "./definition";
import { Events } from "./events";
import { FanOut } from "./fan-out";
import { Graph } from "./graph";
import { Logs } from "./logs";
import { NodePanel } from "./node-panel";
import { Outputs } from "./outputs";
import { childrenFailed, failedNodes, hasEnded, type JobStore, type Overview, useJob } from "./store";
import { TaskTable } from "./tasks";
import { Timeline } from "./timeline";

export default function Job({ params }: ScreenProps): JSX.Element {
  const store = useJob(params.job_id ?? "");
  const job = store.overview.value;
  const error = store.error.value;
  useTitle(job ? `${job.workflow_id} · ${job.status}` : "Job");
  if (!job) {
    if (!error)
      return (
        <Page title="Job">
          <Loading what="the job" rows={6} />
        </Page>
      );
    if (error.isMissing) {
      return (
        <Page title="Job" crumbs={[{ label: "Jobs", to: "/jobs" }]}>
          <Empty title="There is no job with this id" icon="search">
            It may have been deleted after its retention, or belong to another namespace.{" "}
            <Link to="/jobs">All jobs</Link>
          </Empty>
        </Page>
      );
    }
    return (
      <Page title="Job" crumbs={[{ label: "Jobs", to: "/jobs" }]}>
        {error.isForbidden ? (
          <NoPermission error={error} what="this job" />
        ) : (
          <ErrorBox error={error} what="the job" retry={() => void store.read()} />
        )}
      </Page>
    );
  }
  return <JobPage key={store.jobId} store={store} job={job} />;
}

/** The node of the parent that runs this job. */
const parentPlace = (job: string, node: string | null | undefined): string =>
  to`/jobs/${job}` + (node ? `?node=${encodeURIComponent(node)}` : "");

const ROOM_FOR_TWO = "(min-width: 76rem)";
/** In the order of their keys, which are the same for every job. */
const PANES: readonly string[] = ["graph", "fan-out", "timeline", "tasks", "logs", "outputs", "events", "definition"];

function JobPage({ store, job }: { store: JobStore; job: Overview }): JSX.Element {
  const [rerunFrom, setRerunFrom] = useState<string | null>(null);
  const isDone = hasEnded(job.status);
  // As the buttons of the page: what is not offered there is no key either.
  const canRetry = may("operate") && isDone && job.status !== "completed";
  const pane = (id: string) => () => setQuery({ tab: id === "graph" ? null : id }, { replace: false });
  const fanOuts = job.nodes.filter((node) => node.children);
  const outputs = Object.keys(job.result_data ?? {}).length;
  const tabs = [
    { id: "graph", label: "Graph", panel: () => <GraphPane store={store} onRerun={setRerunFrom} /> },
    ...(fanOuts.length
      ? [
          {
            id: "fan-out",
            label: "Fan-out",
            count: countText(fanOuts.reduce((sum, node) => sum + (node.children?.total ?? 0), 0)),
            panel: () => <FanOut store={store} onRerun={setRerunFrom} />,
          },
        ]
      : []),
    { id: "timeline", label: "Timeline", panel: () => <Timeline store={store} /> },
    { id: "tasks", label: "Tasks", panel: () => <TaskTable store={store} /> },
    { id: "logs", label: "Logs", panel: () => <Logs store={store} /> },
    { id: "outputs", label: "Outputs", count: outputs || undefined, panel: () => <Outputs store={store} /> },
    { id: "events", label: "Events", panel: () => <Events store={store} /> },
    { id: "definition", label: "YAML", panel: () => <Definition store={store} /> },
  ];
  useKeys(
    () => [
      ...tabs.map(({ id, label }) => ({
        keys: String(PANES.indexOf(id) + 1),
        label: `Pane “${label}”`,
        group: "Job",
        run: pane(id),
      })),
      { keys: "l", label: "Logs", group: "Job", run: pane("logs") },
      ...(canRetry ? [{ keys: "r", label: "Retry what failed", group: "Job", run: () => retryFailed(store) }] : []),
      ...(may("operate") && isDone
        ? [{ keys: "Shift+R", label: "Rerun…", group: "Job", run: () => setRerunFrom("") }]
        : []),
      ...(may("operate") && !isDone
        ? [{ keys: "c", label: "Cancel the job", group: "Job", run: () => cancelJob(store) }]
        : []),
    ],
    [store, isDone, canRetry, tabs.length],
  );
  return (
    <Page
      wide
      crumbs={[
        { label: "Jobs", to: "/jobs" },
        ...(job.parent_job_id
          ? [{ label: `Job ${shortId(job.parent_job_id)}`, to: parentPlace(job.parent_job_id, job.parent_node_id) }]
          : []),
        { label: job.workflow_id, to: to`/workflows/${job.workflow_id}` },
      ]}
      title={
        <span class="job-title">
          {job.workflow_id}{" "}
          <span class="mono faint job-id" title={job.job_id}>
            {shortId(job.job_id)}
          </span>
          <CopyButton text={job.job_id} label="Copy the id" words={false} />
        </span>
      }
      actions={<JobActions store={store} onRerun={() => setRerunFrom("")} />}
    >
      <Head store={store} job={job} />
      <Panes tabs={tabs} />
      <Announcer job={job} />
      {rerunFrom === null ? null : (
        <RerunDialog store={store} from={rerunFrom || undefined} onClose={() => setRerunFrom(null)} />
      )}
    </Page>
  );
}

/** One pane, or two: beside each other on wide screens, below each other on others. Both are in the address. */
function Panes({ tabs }: { tabs: readonly Tab[] }): JSX.Element {
  const [shown] = useQuery("tab", "graph");
  const [beside, setBeside] = useQuery("beside", "");
  const isRoomy = useMedia(ROOM_FOR_TWO);
  const others = tabs.filter((tab) => tab.id !== shown);
  const second = isRoomy ? others.find((tab) => tab.id === beside) : undefined;
  return (
    <div class="job-panes">
      {isRoomy ? (
        <label class="job-beside small soft">
          Second pane{" "}
          <select value={second?.id ?? ""} onChange={(event) => setBeside(event.currentTarget.value || null)}>
            <option value="">nothing</option>
            {others.map((tab) => (
              <option key={tab.id} value={tab.id}>
                {tab.label}
              </option>
            ))}
          </select>
        </label>
      ) : null}
      <Split
        name="panes"
        roomy
        label="Width of the second pane"
        side={
          second ? (
            <section key={second.id} class="job-second" aria-label={`Second pane: ${second.label}`}>
              <h2>{second.label}</h2>
              {second.panel()}
            </section>
          ) : null
        }
      >
        <Tabs label="Panes of the job" tabs={tabs} />
      </Split>
    </div>
  );
}

/** Screen readers hear when the job changes, and nothing else. */
function Announcer({ job }: { job: Overview }): JSX.Element {
  const [before] = useState(job.status);
  return (
    <p class="sr-only" role="status">
      {job.status === before ? "" : `The job is ${job.status}.`}
    </p>
  );
}

function Head({ store, job }: { store: JobStore; job: Overview }): JSX.Element {
  const isDone = hasEnded(job.status);
  const progress = store.eta.value;
  const counts = job.node_counts;
  const done = counts.completed + counts.failed + counts.skipped + counts.cancelled;
  const params = Object.keys(job.input_params ?? {}).length;
  return (
    <section class="card job-head" aria-label="Summary">
      <div class="job-line">
        <Status
          status={job.status}
          word={job.ending && !isDone ? `${job.ending === "failed" ? "failing" : "being cancelled"}` : undefined}
        />
        <Sentence store={store} job={job} />
      </div>
      <div class="job-progress">
        <ProgressBar shares={sharesOf(counts)} total={Math.max(1, counts.total)} label="Nodes" />
        <span class="small num soft">
          {countText(done)} of {counted(counts.total, "node")}
          {!isDone && progress ? ` · ${Math.floor(progress.overall_percent)} %` : ""}
          {!isDone && progress?.estimated_completion
            ? ` · done ${ageText(progress.estimated_completion, now.value)}`
            : ""}
        </span>
      </div>
      <Facts
        items={[
          [
            "Duration",
            isDone ? (
              <Duration seconds={job.duration_seconds} />
            ) : job.started_at ? (
              <Duration since={job.started_at} />
            ) : (
              "not started"
            ),
          ],
          [
            "Submitted",
            <>
              <Time at={job.created_at} /> <span class="faint">by {job.submitted_by}</span>
            </>,
          ],
          ["Workflow", <Link to={to`/workflows/${job.workflow_id}`}>version {job.workflow_version}</Link>],
          ["Priority", job.priority ? String(job.priority) : null],
          ["Rerun of", job.rerun_of ? <Link to={to`/jobs/${job.rerun_of}`}>{shortId(job.rerun_of)}</Link> : null],
          [
            "Parent",
            job.parent_job_id ? <Link to={to`/jobs/${job.parent_job_id}`}>{shortId(job.parent_job_id)}</Link> : null,
          ],
          [
            "Reruns",
            job.reruns.length ? (
              <span class="row">
                {job.reruns.slice(-5).map((one) => (
                  <Link key={one.job_id} to={to`/jobs/${one.job_id}`}>
                    <Status status={one.status} look="icon" /> {shortId(one.job_id)}
                  </Link>
                ))}
              </span>
            ) : null,
          ],
          ["Labels", Object.keys(job.labels ?? {}).length ? <LabelList key="labels" labels={job.labels} /> : null],
          ["Correlation", job.correlation_id ? <span class="mono">{job.correlation_id}</span> : null],
          [
            "Owner",
            job.owner_id && !isDone ? (
              <span class="mono" title={`${job.owner_id}, epoch ${job.owner_epoch}`}>
                {job.owner_id.slice(-8)}
              </span>
            ) : null,
          ],
        ]}
      />
      {params ? (
        <details class="fold">
          <summary>{counted(params, "parameter")}</summary>
          <JsonTree value={job.input_params} open={1} />
        </details>
      ) : null}
      {job.warnings.length ? (
        <details class="fold" open={isDone}>
          <summary>{counted(job.warnings.length, "warning")}</summary>
          <ul class="warnings">
            {job.warnings.map((warning) => (
              <li key={warning.code} class="notice tone-warning">
                <Icon name="warning" />
                <span>{warning.message}</span>
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </section>
  );
}

/** Why the job stands as it does, in a sentence, with the way to the cause. */
function Sentence({ store, job }: { store: JobStore; job: Overview }): JSX.Element {
  const nodes = store.all();
  if (job.status === "failed") {
    const first = failedNodes(nodes)[0];
    return (
      <p class="job-why">
        {first ? (
          <>
            <Link to={`/jobs/${job.job_id}?node=${encodeURIComponent(first.node_id)}`}>{first.node_id}</Link>
            {first.status === "failed" ? " failed" : ""}:{" "}
          </>
        ) : null}
        {first?.error_message ?? childrenFailed(first) ?? job.error_message ?? "no reason was given"}
      </p>
    );
  }
  if (job.status === "completed")
    return (
      <p class="job-why">
        All {counted(job.node_counts.total, "node")} ended after {durationText(job.duration_seconds)}.
      </p>
    );
  if (job.status === "cancelled") return <p class="job-why">{job.error_message ?? "Cancelled before it had ended."}</p>;
  if (job.status === "pending")
    return (
      <p class="job-why">
        Waiting for an orchestrator to begin it{job.owner_id ? "" : "; `rmhdag orchestrators` shows who could"}.
      </p>
    );
  const running = nodes.filter((node) => node.status === "running");
  const waiting = nodes.find(
    (node) => node.reason && (node.status === "dispatched" || node.status === "ready" || node.type === "approval"),
  );
  if (running.length && running[0]?.type !== "approval") {
    return (
      <p class="job-why">
        Running{" "}
        {running
          .slice(0, 3)
          .map((node) => node.node_id)
          .join(", ")}
        {running.length > 3 ? ` and ${running.length - 3} more` : ""}
        {running[0]?.progress?.progress_message ? `: ${running[0].progress.progress_message}` : "."}
      </p>
    );
  }
  return <p class="job-why">{(waiting ?? running[0])?.reason?.reason_text ?? "Under way."}</p>;
}

function GraphPane({ store, onRerun }: { store: JobStore; onRerun: (from: string) => void }): JSX.Element {
  const structure = store.structure.value;
  const [asked] = useQuery("node", "");
  const job = store.overview.value as Overview;
  const nodes = store.all();
  const first =
    job.status === "failed"
      ? failedNodes(nodes)[0]?.node_id
      : nodes.find((node) => node.type === "approval" && node.status === "running")?.node_id;
  // Remembered, so that closing the panel closes it.
  const [opened, setOpened] = useState(false);
  useEffect(() => {
    if (opened || asked || !first) return;
    setOpened(true);
    setQuery({ node: first });
  }, [first, asked, opened]);
  return (
    <Split
      name="node"
      label="Width of the node's details"
      sideFirst
      side={asked ? <NodePanel key={asked} store={store} name={asked} onRerun={onRerun} /> : null}
    >
      <section class="card" aria-label="Graph">
        {structure ? (
          <Graph
            structure={structure}
            store={store}
            chosen={asked}
            onChoose={(node) => setQuery({ node: node === asked ? null : node })}
          />
        ) : (
          <Loading what="the graph" />
        )}
      </section>
    </Split>
  );
}

/** What the list shows of a job. */
import { durationText, Link, type Model, persisted, shortId } from "~/core";
import { type Column, Duration, LabelList, ProgressBar, Status, sharesOf, Time } from "~/widgets";
import type { Job } from "./rows";

type Progress = Model<"JobProgress">;
type Usual = Model<"WorkflowMetrics">;

export const OPTIONAL: readonly (readonly [string, string])[] = [
  ["progress", "Progress or reason"],
  ["created", "Submitted"],
  ["duration", "Duration"],
  ["by", "By"],
  ["labels", "Labels"],
  ["correlation", "Correlation"],
  ["id", "Id"],
];
export const hiddenColumns = persisted<string[]>(
  "job-columns-hidden",
  ["correlation", "id"],
  (value): value is string[] => Array.isArray(value),
);

/** "▲ 2.1×" if it took or takes much longer than usual. */
function Slowness({ job, usual }: { job: Job; usual: Usual | undefined }) {
  const usually = usual?.p50_duration_seconds;
  if (!usually || !job.duration_seconds || usually < 1) return null;
  const ratio = job.duration_seconds / usually;
  if (ratio < 1.5) return null;
  return (
    <span class="jobs-slow" title={`usually ${durationText(usually)}`}>
      ▲ {ratio.toFixed(1)}×
    </span>
  );
}

/** What a cell has room for: the node and its error, without the words between them and classes that say nothing. */
const shortError = (text: string): string =>
  text.replace(/^node '([^']+)' failed: (?:(?:RuntimeError|NonRetryableError|Exception): )?/, "$1: ");

/** All that is always shown, and of the others those of `shown`; labels where some of the jobs have any. */
export function columnsOf(
  progress: ReadonlyMap<string, Progress>,
  usual: readonly Usual[],
  shown: readonly string[],
  hasLabels: boolean,
): Column<Job>[] {
  const byWorkflow = new Map(usual.map((one) => [one.workflow_id, one]));
  const all: Column<Job>[] = [
    {
      id: "status",
      title: "Status",
      width: "8.5rem",
      cell: (job) => (
        <Status status={job.status} {...(job.ending && job.status === "running" ? { word: "stopping" } : {})} />
      ),
    },
    {
      id: "workflow",
      title: "Workflow",
      cell: (job) => (
        <span class="cut" title={job.error_message ?? undefined}>
          <Link to={`/jobs/${job.job_id}`} class="jobs-name">
            {job.workflow_id}
          </Link>{" "}
          <span class="faint">v{job.workflow_version}</span>
          {job.error_message ? <span class="jobs-error only-narrow"> {shortError(job.error_message)}</span> : null}
        </span>
      ),
    },
    {
      id: "progress",
      title: "Progress or reason",
      hide: "narrow",
      cell: (job) => {
        if (job.error_message) {
          return (
            <span class="cut jobs-error" title={job.error_message}>
              {shortError(job.error_message)}
            </span>
          );
        }
        const known = progress.get(job.job_id);
        if (job.status !== "running" || !known) return null;
        const done = known.nodes.completed ?? 0;
        const total = known.nodes.total ?? 0;
        return (
          <span class="jobs-progress">
            <ProgressBar shares={sharesOf({ ...EMPTY, ...known.nodes })} total={total} label="Nodes" />
            <span class="num small">
              {done}/{total}
            </span>
          </span>
        );
      },
    },
    { id: "created", title: "Submitted", width: "6.5rem", hide: "narrow", cell: (job) => <Time at={job.created_at} /> },
    {
      id: "duration",
      title: "Duration",
      width: "7.5rem",
      align: "right",
      hide: "narrow",
      cell: (job) => (
        <>
          <Slowness job={job} usual={byWorkflow.get(job.workflow_id)} />{" "}
          {job.status === "running" ? <Duration since={job.started_at} /> : <Duration seconds={job.duration_seconds} />}
        </>
      ),
    },
    {
      id: "by",
      title: "By",
      width: "6rem",
      hide: "medium",
      cell: (job) => <span class="cut">{job.submitted_by}</span>,
    },
    {
      id: "labels",
      title: "Labels",
      width: "9.5rem",
      hide: "medium",
      cell: (job) => <LabelList labels={job.labels} />,
    },
    {
      id: "correlation",
      title: "Correlation",
      width: "9rem",
      hide: "medium",
      cell: (job) => <span class="cut">{job.correlation_id}</span>,
    },
    {
      id: "id",
      title: "Id",
      width: "6rem",
      hide: "medium",
      cell: (job) => (
        <span class="mono faint" title={job.job_id}>
          {shortId(job.job_id)}
        </span>
      ),
    },
  ];
  const optional = new Set(OPTIONAL.map(([id]) => id));
  return all.filter(({ id }) => (!optional.has(id) || shown.includes(id)) && (hasLabels || id !== "labels"));
}

const EMPTY = { total: 0, completed: 0, failed: 0, skipped: 0, cancelled: 0, running: 0 };

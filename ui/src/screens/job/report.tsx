/** All about a job on one page, for paper and for files: nothing on it has to be opened, hovered or scrolled. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import {
  api,
  counted,
  durationText,
  type Model,
  momentText,
  ok,
  Resolved,
  type ScreenProps,
  shortId,
  to,
  useResource,
  useTitle,
} from "~/core";
import { labelTexts } from "~/core/labels";
import { Button, Facts, MiniGraph, Page, Section, Status } from "~/widgets";
import { LogText } from "./log-text";
import { childrenFailed, failedNodes, hasEnded, type NodeOverview, type Overview } from "./store";

const MOST_FAILURES = 5;
const LAST_LINES = 20;
const MOST_EVENTS = 200;
const MOST_TEXT = 4_000;
/** A value of several lines is easier to read only if one line cannot hold it. */
const MOST_OF_A_LINE = 160;

type Failure = { node: NodeOverview; lines: string[] };

async function readReport(jobId: string, signal: AbortSignal) {
  const path = { job_id: jobId };
  const query = { reasons: true, structure: true };
  const job = (await ok(api.GET("/api/v1/jobs/{job_id}/overview", { params: { path, query }, signal }))) as Overview;
  const failed = failedNodes(job.nodes).slice(0, MOST_FAILURES);
  const [timeline, ...failures] = await Promise.all([
    ok(api.GET("/api/v1/jobs/{job_id}/timeline", { params: { path, query: { limit: MOST_EVENTS } }, signal })),
    ...failed.map(async (node): Promise<Failure> => {
      const params = { path, query: { first: -LAST_LINES, limit: LAST_LINES, node_id: node.node_id } };
      const page = await ok(api.GET("/api/v1/jobs/{job_id}/logs/lines", { params, signal }));
      return { node, lines: page.pieces.flatMap((piece) => piece.lines) };
    }),
  ]);
  return { job, timeline, failures, readAt: new Date().toISOString() };
}

export default function Report({ params }: ScreenProps): JSX.Element {
  const jobId = params.job_id ?? "";
  const report = useResource((signal) => readReport(jobId, signal), [jobId]);
  const job = report.data.value?.job;
  useTitle(job ? `Report: ${job.workflow_id} ${job.job_id}` : "Report of a job");
  return (
    <Page
      title={job ? `${job.workflow_id}: ${job.status}` : "Report"}
      crumbs={[
        { label: "Jobs", to: "/jobs" },
        { label: job ? `${job.workflow_id} ${shortId(jobId)}` : "Job", to: to`/jobs/${jobId}` },
      ]}
      actions={
        <>
          <Button icon="retry" onClick={() => void report.reload()}>
            Read again
          </Button>
          <Button icon="log" look="primary" onClick={() => window.print()} disabled={!job}>
            Print
          </Button>
        </>
      }
    >
      <Resolved resource={report} what="the report">
        {(data) => <Sheets {...data} />}
      </Resolved>
    </Page>
  );
}

type ReportData = Awaited<ReturnType<typeof readReport>>;

function Sheets({ job, timeline, failures, readAt }: ReportData): JSX.Element {
  const statuses = useMemo(() => new Map(job.nodes.map((node) => [node.node_id, node.status])), [job]);
  const moment = (at: string | null | undefined) => (at ? momentText(at) : null);
  return (
    <div class="stack report">
      <Section title="Summary" aside={<Status status={job.status} />}>
        <div class="stack">
          {job.error_message ? <p class="report-text">{job.error_message}</p> : null}
          <Facts
            items={[
              ["Job", <code key="id">{job.job_id}</code>],
              ["Workflow", `${job.workflow_id}, version ${job.workflow_version}`],
              ["Submitted", `${moment(job.created_at)} by ${job.submitted_by}`],
              ["Started", moment(job.started_at)],
              [hasEnded(job.status) ? "Ended" : "Expected end", moment(job.completed_at)],
              ["Duration", durationText(job.duration_seconds)],
              ["Nodes", nodesText(job)],
              ["Rerun of", job.rerun_of],
              ["Parent", job.parent_job_id],
              ["Labels", labelTexts(job.labels ?? {}).join(", ") || null],
              ["Correlation", job.correlation_id],
            ]}
          />
        </div>
      </Section>
      {job.warnings.length ? (
        <Section title={counted(job.warnings.length, "warning")}>
          <ul class="stack">
            {job.warnings.map((warning) => (
              <li key={warning.code}>{warning.message}</li>
            ))}
          </ul>
        </Section>
      ) : null}
      {failures.map(({ node, lines }) => (
        <Failed key={node.node_id} node={node} lines={lines} />
      ))}
      {job.structure ? (
        <Section title="Graph">
          <MiniGraph
            layout={job.structure}
            label="Nodes in the order of the graph"
            statusOf={(name) => statuses.get(name)}
          />
        </Section>
      ) : null}
      <Section title="Nodes" flush>
        <NodeTable nodes={job.nodes} />
      </Section>
      <Values title="Parameters" values={job.input_params} />
      <Values title="Results" values={job.result_data} />
      <Section title="What happened" aside={<span>{counted(timeline.summary.total_events, "event")}</span>}>
        <ol class="report-events">
          {timeline.events.map((event) => (
            <li key={event.event_id}>
              <time dateTime={event.timestamp}>{momentText(event.timestamp, { named: false })}</time>
              <span>{event.message}</span>
            </li>
          ))}
        </ol>
        {timeline.summary.total_events > timeline.events.length ? (
          <p class="small faint">
            The first {timeline.events.length}. All of them: <code>rmhdag job {job.job_id} --events</code>
          </p>
        ) : null}
      </Section>
      <p class="small faint">
        Read {momentText(readAt)} from {window.location.origin}.
      </p>
    </div>
  );
}

function nodesText(job: Overview): string {
  const { total, completed, failed, skipped, cancelled } = job.node_counts;
  const parts = [
    `${completed} completed`,
    failed ? `${failed} failed` : "",
    skipped ? `${skipped} skipped` : "",
    cancelled ? `${cancelled} cancelled` : "",
  ];
  return `${total}: ${parts.filter(Boolean).join(", ")}`;
}

function Failed({ node, lines }: Failure): JSX.Element {
  return (
    <Section
      title={
        <>
          Failed: <span class="mono">{node.node_id}</span>
        </>
      }
      aside={<span>{`attempt ${node.attempt} of ${node.max_retries + 1}`}</span>}
    >
      <div class="stack">
        <p class="report-text">{node.error_message ?? childrenFailed(node) ?? "No reason was given."}</p>
        {node.error?.remediation ? <p class="soft">{node.error.remediation}</p> : null}
        {lines.length ? (
          <div class="report-lines">
            {lines.map((line, index) => (
              <div key={index}>
                <LogText text={line} />
              </div>
            ))}
          </div>
        ) : (
          <p class="small faint">It wrote nothing.</p>
        )}
      </div>
    </Section>
  );
}

/** A plain table: one that draws only the rows in sight would print only those. */
function NodeTable({ nodes }: { nodes: readonly NodeOverview[] }): JSX.Element {
  return (
    <table class="report-table">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">State</th>
          <th scope="col">Started</th>
          <th scope="col">Duration</th>
          <th scope="col">Attempts</th>
          <th scope="col">Message</th>
        </tr>
      </thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.node_id}>
            <th scope="row" class="mono">
              {node.node_id}
            </th>
            <td>
              <Status status={node.status} look="plain" />
            </td>
            <td class="num">{node.started_at ? momentText(node.started_at, { named: false }).slice(11) : "–"}</td>
            <td class="num">{durationText(node.duration_seconds)}</td>
            <td class="num">{node.task_id || node.children ? node.attempt : "–"}</td>
            <td>{messageOf(node)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function messageOf(node: NodeOverview): string {
  const { children } = node;
  const counts = children ? `${children.completed} of ${counted(children.total, "child", "children")} completed` : "";
  return [counts, node.error_message ?? node.reason?.reason_text ?? ""].filter(Boolean).join("; ");
}

function jsonText(value: unknown): string {
  const line = JSON.stringify(value);
  return line.length <= MOST_OF_A_LINE ? line : JSON.stringify(value, null, 1);
}

function Values({ title, values }: { title: string; values: Model<"JobOverview">["result_data"] }): JSX.Element | null {
  const entries = Object.entries(values ?? {});
  if (entries.length === 0) return null;
  return (
    <Section title={title}>
      <dl class="report-values">
        {entries.map(([name, value]) => {
          const text = typeof value === "string" ? value : jsonText(value);
          return (
            <div key={name}>
              <dt class="mono">{name}</dt>
              <dd>
                <pre>{text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}\n… cut here` : text}</pre>
              </dd>
            </div>
          );
        })}
      </dl>
    </Section>
  );
}

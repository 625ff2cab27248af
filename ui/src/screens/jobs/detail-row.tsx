/** What opens below a row: the graph, the nodes in their order, and the reason why it failed or waits, without leaving the list. */
import type { JSX } from "preact";
import { api, counted, Link, ok, Resolved, to, useResource } from "~/core";
import { Duration, MiniGraph, Status } from "~/widgets";
import { toTheRight } from "../job/direction";
import type { Structure } from "../job/store";
import type { Job } from "./rows";

const MOST_NODES = 40;
// Beyond it the boxes of a drawing this small cannot be read.
const MOST_DRAWN = 60;

export function JobDetailRow({ job }: { job: Job }): JSX.Element {
  const overview = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/jobs/{job_id}/overview", {
          params: { path: { job_id: job.job_id }, query: { reasons: true, structure: true } },
          signal,
        }),
      ),
    [job.job_id],
    { live: [`job:${job.job_id}`] },
  );
  return (
    <Resolved resource={overview} what="the nodes of the job">
      {(data) => {
        const failing = data.nodes.find((node) => node.status === "failed");
        const waiting = data.nodes.find((node) => node.reason);
        return (
          <div class="stack">
            {failing ? (
              <p class="notice tone-bad">
                <span>
                  <Link to={`${to`/jobs/${job.job_id}`}?node=${encodeURIComponent(failing.node_id)}`}>
                    {failing.node_id}
                  </Link>{" "}
                  failed: {failing.error_message}
                </span>
              </p>
            ) : waiting?.reason ? (
              <p class="notice tone-waiting">
                <span>
                  {waiting.node_id}: {waiting.reason.reason_text} {waiting.reason.hint}
                </span>
              </p>
            ) : null}
            {data.structure && data.nodes.length <= MOST_DRAWN ? (
              <MiniGraph
                layout={toTheRight(data.structure as Structure)}
                label="Nodes of the job, in the order of the graph"
                statusOf={(name) => data.nodes.find((node) => node.node_id === name)?.status}
              />
            ) : null}
            <ol class="jobs-nodes">
              {data.nodes.slice(0, MOST_NODES).map((node) => (
                <li key={node.node_id}>
                  <Link to={`${to`/jobs/${job.job_id}`}?node=${encodeURIComponent(node.node_id)}`}>{node.node_id}</Link>
                  <Status status={node.status} look="plain" />
                  {node.children ? (
                    <span class="faint">
                      {node.children.completed}/{node.children.total}
                    </span>
                  ) : null}
                  <span class="faint">
                    <Duration seconds={node.duration_seconds} />
                  </span>
                </li>
              ))}
            </ol>
            {data.nodes.length > MOST_NODES ? (
              <p class="faint">and {counted(data.nodes.length - MOST_NODES, "more node")}</p>
            ) : null}
            {data.nodes.length === 0 ? <p class="faint">No orchestrator has begun this job yet.</p> : null}
          </div>
        );
      }}
    </Resolved>
  );
}

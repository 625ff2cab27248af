/** All about the node that is chosen: why it stands as it does, what it was given and made, its last lines. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import {
  api,
  asApiError,
  counted,
  type Model,
  may,
  ok,
  Resolved,
  setQuery,
  to,
  toast,
  toastError,
  useResource,
} from "~/core";
import { Link } from "~/core/router";
import { Button, confirm, Duration, ErrorBox, Facts, Icon, JsonTree, Status, Time } from "~/widgets";
import { retryNode } from "./actions";
import { LogText } from "./log-text";
import type { JobStore, NodeOverview } from "./store";

const LAST_LINES = 20;

export function ErrorText({
  text,
  error,
}: {
  text: string | null | undefined;
  error?: Model<"ErrorView"> | null | undefined;
}): JSX.Element | null {
  if (!text && !error) return null;
  return (
    <div class="notice tone-bad job-error">
      <Icon name="cross" />
      <div>
        <p class="job-error-text">{text ?? error?.message}</p>
        {error?.remediation ? <p class="soft">{error.remediation}</p> : null}
        {error?.code ? <p class="small faint">{error.code}</p> : null}
      </div>
    </div>
  );
}

export function LastLines({ jobId, node, news }: { jobId: string; node: string; news: unknown }): JSX.Element {
  const lines = useResource(
    (signal) => {
      const params = { path: { job_id: jobId }, query: { first: -LAST_LINES, limit: LAST_LINES, node_id: node } };
      return ok(api.GET("/api/v1/jobs/{job_id}/logs/lines", { params, signal }));
    },
    [jobId, node, news],
    { clears: false },
  );
  return (
    <Resolved
      resource={lines}
      what="the last lines"
      isEmpty={(page) => page.total === 0}
      empty={<p class="faint small">It wrote nothing.</p>}
    >
      {(page) => (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard
        <div class="last-lines" tabIndex={0} role="group" aria-label={`Last lines of ${node}`}>
          {page.pieces.flatMap((piece) =>
            piece.lines.map((line, index) => (
              <div key={piece.numbers[index]} class={`log-row log-${piece.levels[index]}`}>
                <LogText text={line} />
              </div>
            )),
          )}
        </div>
      )}
    </Resolved>
  );
}

export function NodePanel({
  store,
  name,
  onRerun,
}: {
  store: JobStore;
  name: string;
  onRerun: (from: string) => void;
}): JSX.Element {
  const overview = store.node(name)?.value;
  const isChild = overview === undefined;
  const detail = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/jobs/{job_id}/nodes/{node_id}", {
          params: { path: { job_id: store.jobId, node_id: name } },
          signal,
        }),
      ),
    [store.jobId, name],
  );
  // Read again when its state has changed.
  const state = `${overview?.status} ${overview?.attempt} ${isChild ? store.news.value : ""}`;
  const [seen, setSeen] = useState(state);
  if (seen !== state) {
    setSeen(state);
    void detail.reload();
  }
  return (
    <aside class="card node-panel" aria-label={`Node ${name}`}>
      <header class="card-head">
        <h2 class="mono">{name}</h2>
        <Button look="quiet" icon="cross" label="Close" onClick={() => setQuery({ node: null })} />
      </header>
      <div class="card-body stack">
        <Resolved resource={detail} what={`node ${name}`}>
          {(node) => (
            <NodeBody
              store={store}
              node={overview ? { ...node, ...overview, error: overview.error ?? node.error } : node}
              onRerun={onRerun}
            />
          )}
        </Resolved>
      </div>
    </aside>
  );
}

type AnyNode = Model<"NodeView"> & Partial<NodeOverview>;

function NodeBody({
  store,
  node,
  onRerun,
}: {
  store: JobStore;
  node: AnyNode;
  onRerun: (from: string) => void;
}): JSX.Element {
  const isOpen = store.isOpen.value;
  const isTask = node.type === "task" || node.type === "fan_out";
  const progress = node.progress;
  return (
    <>
      <div class="row">
        <Status status={node.status} />
        {node.taken_over ? <span class="small faint">taken over from the job before</span> : null}
        {node.handler ? <span class="mono soft">{node.handler}</span> : null}
      </div>
      {node.reason && node.status !== "completed" ? <Why reason={node.reason} /> : null}
      {node.status !== "completed" ? <ErrorText text={node.error_message} error={node.error} /> : null}
      {progress ? (
        <div class="node-progress">
          <progress max={100} value={progress.progress_percent ?? undefined} aria-label="Progress of the task" />
          <span class="small soft">
            {progress.progress_percent === null ? "" : `${Math.round(progress.progress_percent)} % `}
            {progress.progress_message}
          </span>
        </div>
      ) : null}
      {node.type === "approval" && node.status === "running" ? <Decide store={store} node={node} /> : null}
      {node.type === "fan_out" && node.children ? (
        <p class="row">
          <Button icon="fan" onClick={() => setQuery({ tab: "fan-out", node: node.node_id }, { replace: false })}>
            {counted(node.children.total, "child", "children")}
          </Button>
          {node.children.failed ? (
            <span class="small soft">{counted(node.children.failed, "child", "children")} failed</span>
          ) : null}
        </p>
      ) : null}
      {node.type === "fan_out" && node.children?.failed ? (
        <FailedChildren store={store} name={node.node_id} failed={node.children.failed} />
      ) : null}
      {node.child_job_id ? (
        <p>
          <Link to={to`/jobs/${node.child_job_id}`}>Open the job of the sub-workflow</Link>
        </p>
      ) : null}
      <Facts
        items={[
          ["Attempt", isTask ? `${node.attempt} of ${node.max_retries + 1}` : null],
          ["Next try", node.next_attempt_at && isOpen ? <Time at={node.next_attempt_at} /> : null],
          ["Lost workers", node.lease_losses ? String(node.lease_losses) : null],
          ["Started", node.started_at ? <Time at={node.started_at} exact="clock" /> : null],
          [
            "Duration",
            node.started_at ? (
              node.completed_at ? (
                <Duration seconds={node.duration_seconds} />
              ) : (
                <Duration since={node.started_at} />
              )
            ) : null,
          ],
          ["Queue", node.queue ?? null],
          [
            "Worker",
            node.worker_id ? (
              <span class="mono" title={node.worker_id}>
                {node.worker_id.slice(-8)}
              </span>
            ) : null,
          ],
          ["Checkpoint", node.checkpoint_phase ?? null],
          ["Item", node.fan_out_item_key ?? null],
          [
            "Child of",
            node.parent_node_id ? (
              <Link to={`/jobs/${store.jobId}?tab=fan-out&node=${encodeURIComponent(node.parent_node_id)}`}>
                {node.parent_node_id}
              </Link>
            ) : null,
          ],
        ]}
      />
      {node.warnings?.length ? (
        <ul class="warnings">
          {node.warnings.map((warning) => (
            <li key={warning.code} class="notice tone-warning">
              <Icon name="warning" />
              <span>{warning.message}</span>
            </li>
          ))}
        </ul>
      ) : null}
      <div class="row">
        {may("operate") && isOpen && (node.next_attempt_at || (node.status === "failed" && node.parent_node_id)) ? (
          <Button icon="retry" onClick={() => retryNode(store, node.node_id).catch(toastError)}>
            Try now
          </Button>
        ) : null}
        {may("operate") && !isOpen && !node.parent_node_id ? (
          <Button icon="retry" onClick={() => onRerun(node.node_id)}>
            Rerun from here
          </Button>
        ) : null}
        {isTask ? (
          <Button
            icon="log"
            onClick={() => setQuery({ tab: "logs", node: node.node_id, line: null }, { replace: false })}
          >
            All its logs
          </Button>
        ) : null}
      </div>
      {isTask ? (
        <details class="fold" open={node.status === "failed" || node.status === "running"}>
          <summary>Last lines</summary>
          <LastLines
            jobId={store.jobId}
            node={node.node_id}
            news={`${node.status} ${isOpen ? store.news.value : ""}`}
          />
        </details>
      ) : null}
      {Object.keys(node.input_params ?? {}).length ? (
        <details class="fold">
          <summary>Parameters</summary>
          <JsonTree value={node.input_params} open={1} />
        </details>
      ) : null}
      {node.output !== null && node.output !== undefined ? (
        <details class="fold" open={node.status === "completed"}>
          <summary>Output</summary>
          <JsonTree value={node.output} open={2} />
        </details>
      ) : null}
    </>
  );
}

/** The first of them, each with its error: one click from the job to the cause. */
function FailedChildren({ store, name, failed }: { store: JobStore; name: string; failed: number }): JSX.Element {
  const children = useResource(
    async (signal) => {
      const params = { path: { job_id: store.jobId }, query: { parent: name, status: ["failed" as const], limit: 3 } };
      return (await ok(api.GET("/api/v1/jobs/{job_id}/nodes", { params, signal }))).nodes;
    },
    [store.jobId, name, failed],
    { clears: false },
  );
  return (
    <Resolved resource={children} what="the children that failed">
      {(nodes) => (
        <ul class="warnings">
          {nodes.map((child) => (
            <li key={child.node_id} class="notice tone-bad">
              <Icon name="cross" />
              <span>
                <Link to={`/jobs/${store.jobId}?tab=fan-out&node=${encodeURIComponent(child.node_id)}`}>
                  {child.fan_out_item_key ?? child.node_id}
                </Link>{" "}
                {child.error_message}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Resolved>
  );
}

export function Why({ reason }: { reason: Model<"Reason"> }): JSX.Element {
  return (
    <div class="notice tone-waiting">
      <Icon name="clock" />
      <div>
        <p>{reason.reason_text}</p>
        {reason.hint ? <p class="small soft">{reason.hint}</p> : null}
      </div>
    </div>
  );
}

/** An approval that waits, with its two answers. */
function Decide({ store, node }: { store: JobStore; node: AnyNode }): JSX.Element | null {
  const [error, setError] = useState<unknown>();
  const makesRevision = store.overview.value?.request_id !== null;
  if (!may("operate") && !may("reviewer")) return <p class="small faint">Only operators and reviewers may decide.</p>;
  const ask = (decision: "approve" | "reject", clearance?: "public" | "restricted") =>
    confirm({
      title: decision === "approve" ? `Approve ${node.node_id}?` : `Reject ${node.node_id}?`,
      action: decision === "approve" ? "Approve" : "Reject",
      danger: decision === "reject",
      reason: decision === "reject" ? "required" : "optional",
      preview:
        decision === "approve" ? (
          <p>The job continues behind this node.{clearance ? ` What it makes is ${clearance}.` : ""}</p>
        ) : (
          <p>The node fails, and the job with it, unless the workflow says otherwise.</p>
        ),
      run: async (reason) => {
        const path = { job_id: store.jobId, node_id: node.node_id };
        const body = { decision, reason: reason || null, clearance: clearance ?? null };
        await ok(api.POST("/api/v1/jobs/{job_id}/nodes/{node_id}/decide", { params: { path }, body }));
        setError(undefined);
        toast({ kind: "done", text: decision === "approve" ? "Approved." : "Rejected." });
        store.readSoon(0);
      },
    });
  return (
    <div class="stack">
      <div class="row">
        {makesRevision ? (
          <>
            <Button look="primary" icon="check" onClick={() => ask("approve", "public")}>
              Approve as public
            </Button>
            <Button icon="check" onClick={() => ask("approve", "restricted")}>
              Approve as restricted
            </Button>
          </>
        ) : (
          <Button look="primary" icon="check" onClick={() => ask("approve")}>
            Approve
          </Button>
        )}
        <Button look="danger" icon="cross" onClick={() => ask("reject")}>
          Reject
        </Button>
      </div>
      {error ? <ErrorBox error={asApiError(error)} /> : null}
    </div>
  );
}

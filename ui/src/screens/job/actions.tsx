/** What can be done with a job, each with a preview of its effect. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, api, asApiError, counted, type Model, may, navigate, ok, shortId, to, toast } from "~/core";
import { Button, ButtonLink, confirm, Dialog, ErrorBox, Loading } from "~/widgets";
import { hasEnded, type JobStore, type Overview } from "./store";

type Rerun = Model<"RerunAnswer">;
type RerunBody = Model<"RerunRequest">;

function Names({ names, most = 12 }: { names: readonly string[]; most?: number }): JSX.Element {
  return (
    <ul class="name-list">
      {names.slice(0, most).map((name) => (
        <li key={name}>
          <code>{name}</code>
        </li>
      ))}
      {names.length > most ? <li class="faint">and {names.length - most} more</li> : null}
    </ul>
  );
}

/** Which nodes run again and which results are taken over. */
function Plan({ plan }: { plan: Rerun }): JSX.Element {
  return (
    <div class="plan">
      <div>
        <h3>Runs again · {plan.again.length}</h3>
        {plan.again.length ? <Names names={plan.again} /> : <p class="faint">Nothing.</p>}
      </div>
      <div>
        <h3>Reused · {plan.reused.length}</h3>
        {plan.reused.length ? <Names names={plan.reused} /> : <p class="faint">Nothing: everything runs again.</p>}
      </div>
      {plan.keeps_children.length ? (
        <p class="plan-note">
          Finished children of {plan.keeps_children.join(", ")} are kept; only the others run again.
        </p>
      ) : null}
    </div>
  );
}

export function cancelJob(store: JobStore): void {
  const job = store.overview.peek();
  if (!job) return;
  const counts = job.node_counts;
  const running = counts.running + counts.dispatched;
  const waiting = counts.pending + counts.ready;
  confirm({
    title: "Cancel this job?",
    danger: true,
    reason: "optional",
    action: "Cancel the job",
    preview: (
      <p>
        {counted(running, "node")} under way {running === 1 ? "is" : "are"} stopped, {counted(waiting, "node")} never{" "}
        {waiting === 1 ? "starts" : "start"}. {counted(counts.completed, "finished result")}{" "}
        {counts.completed === 1 ? "stays" : "stay"} and can be reused by a rerun.
      </p>
    ),
    run: async (reason) => {
      const path = { job_id: store.jobId };
      const answer = await ok(
        api.POST("/api/v1/jobs/{job_id}/cancel", { params: { path }, body: { reason: reason || null } }),
      );
      toast({
        kind: "done",
        text: answer.outcome ? "The job was cancelled." : "The job will be cancelled as soon as its owner answers.",
      });
      store.readSoon(0);
    },
  });
}

export function retryFailed(store: JobStore): void {
  const path = { job_id: store.jobId };
  confirm({
    title: "Retry what failed?",
    action: "Start the retry",
    preview: async () => {
      const plan = await ok(api.POST("/api/v1/jobs/{job_id}/retry", { params: { path }, body: { dry_run: true } }));
      return (
        <>
          <p>A new job, linked to this one, runs what failed or never ran. This job stays as it is.</p>
          <Plan plan={plan} />
        </>
      );
    },
    run: async () => {
      const made = await ok(api.POST("/api/v1/jobs/{job_id}/retry", { params: { path }, body: { dry_run: false } }));
      landOn(made);
    },
  });
}

function landOn(made: Rerun): void {
  if (!made.job_id) return;
  toast({
    kind: "done",
    text: `Job ${shortId(made.job_id)} runs ${counted(made.again.length, "node")} again and reuses ${made.reused.length}.`,
  });
  navigate(to`/jobs/${made.job_id}`);
}

/** Skip the wait for a retry, or give a failed child one more attempt; in a running job. */
export async function retryNode(store: JobStore, nodeId: string): Promise<void> {
  const path = { job_id: store.jobId, node_id: nodeId };
  const answer = await ok(api.POST("/api/v1/jobs/{job_id}/nodes/{node_id}/retry", { params: { path } }));
  toast({ kind: "done", text: answer.reason || `${nodeId} is tried again.` });
  store.readSoon(0);
}

type RerunScope = "changed" | "from" | "everything";

export function RerunDialog({
  store,
  from,
  onClose,
}: {
  store: JobStore;
  from?: string | undefined;
  onClose: () => void;
}): JSX.Element {
  const job = store.overview.peek() as Overview;
  const before = JSON.stringify(job.input_params, null, 2);
  const [text, setText] = useState(before);
  const [scope, setScope] = useState<RerunScope>(from ? "from" : "changed");
  const [plan, setPlan] = useState<Rerun>();
  const [error, setError] = useState<ApiError>();
  const [problem, setProblem] = useState<string>();
  const [busy, setBusy] = useState(false);
  const path = { job_id: store.jobId };

  const bodyOf = (): RerunBody | undefined => {
    let params: Record<string, unknown>;
    try {
      params = JSON.parse(text) as Record<string, unknown>;
    } catch (mistake) {
      setProblem(`This is not JSON: ${(mistake as Error).message}`);
      return undefined;
    }
    setProblem(undefined);
    const old = job.input_params as Record<string, unknown>;
    const changes = Object.entries(params).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name]),
    );
    return {
      dry_run: false,
      input_params: Object.fromEntries(changes) as RerunBody["input_params"],
      from_nodes: scope === "from" && from ? [from] : [],
      everything: scope === "everything",
    };
  };

  useEffect(() => {
    const timer = window.setTimeout(async () => {
      const body = bodyOf();
      if (!body) return;
      try {
        setPlan(
          await ok(api.POST("/api/v1/jobs/{job_id}/rerun", { params: { path }, body: { ...body, dry_run: true } })),
        );
        setError(undefined);
      } catch (mistake) {
        setPlan(undefined);
        setError(asApiError(mistake));
      }
    }, 300);
    return () => window.clearTimeout(timer);
  }, [text, scope]);

  const run = async () => {
    const body = bodyOf();
    if (!body) return;
    setBusy(true);
    try {
      const made = await ok(api.POST("/api/v1/jobs/{job_id}/rerun", { params: { path }, body }));
      onClose();
      landOn(made);
    } catch (mistake) {
      setError(asApiError(mistake));
      setBusy(false);
    }
  };
  const choices: [RerunScope, string][] = [
    ["changed", "What failed, and what the changed parameters reach"],
    ...(from ? ([["from", `From ${from} on`]] as [RerunScope, string][]) : []),
    ["everything", "Everything"],
  ];
  return (
    <Dialog
      title="Run this job again"
      size="large"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" onClick={run} busy={busy} disabled={!plan || problem !== undefined}>
            Start the rerun
          </Button>
        </>
      }
    >
      <p class="soft">A new job, linked to this one. This job and its results stay as they are.</p>
      <div class="rerun">
        <div class="field">
          <label for="rerun-params">Parameters</label>
          <textarea
            id="rerun-params"
            class="mono"
            rows={12}
            spellcheck={false}
            value={text}
            aria-invalid={problem !== undefined}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {problem ? <p class="field-problem">{problem}</p> : null}
        </div>
        <div class="stack">
          <fieldset class="choices">
            <legend class="field-label">What runs again</legend>
            {choices.map(([value, words]) => (
              <label key={value}>
                <input type="radio" name="rerun-scope" checked={scope === value} onChange={() => setScope(value)} />{" "}
                {words}
              </label>
            ))}
          </fieldset>
          {error ? <ErrorBox error={error} /> : plan ? <Plan plan={plan} /> : <Loading what="the preview" />}
        </div>
      </div>
    </Dialog>
  );
}

/** Everything that can be done with the job as it stands now, by whom is signed in. */
export function JobActions({ store, onRerun }: { store: JobStore; onRerun: () => void }): JSX.Element | null {
  const job = store.overview.value;
  if (!job) return null;
  const isOver = hasEnded(job.status);
  return (
    <>
      {may("operate") && !isOver ? (
        <Button look="danger" icon="stop" onClick={() => cancelJob(store)} disabled={job.ending !== null}>
          Cancel
        </Button>
      ) : null}
      {may("operate") && isOver && job.status !== "completed" ? (
        <Button look="primary" icon="retry" onClick={() => retryFailed(store)}>
          Retry failed
        </Button>
      ) : null}
      {may("operate") && isOver ? (
        <Button icon="edit" onClick={onRerun}>
          Rerun…
        </Button>
      ) : null}
      {may("submit") ? (
        <ButtonLink
          icon="copy"
          to={`${to`/submit/${job.workflow_id}`}?from=${encodeURIComponent(job.job_id)}`}
          title="The form of the workflow with the parameters of this job, for a new job"
        >
          Clone to form
        </ButtonLink>
      ) : null}
      <ButtonLink icon="log" to={to`/jobs/${job.job_id}/report`} title="All about the job on one page, for paper">
        Report
      </ButtonLink>
    </>
  );
}

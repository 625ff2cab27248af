/** A job that does next to nothing, watched from its submission to its end: whether the platform works, not only answers. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, api, asApiError, durationText, Link, type Model, may, ok, to } from "~/core";
import { Button, ErrorBox, Icon, Section, Status } from "~/widgets";

type Overview = Model<"JobOverview">;

/** Ships with the product; the queue of its only task is served by every worker of a usual installation. */
const CANARY = "hello_world";
const LOOK_MS = 400;
/** By then a healthy platform has long answered; the job itself goes on. */
const PATIENCE_MS = 30_000;

interface Run {
  jobId: string;
  askedAt: number;
  acceptedMs: number;
}

const delay = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      resolve();
    });
  });

const hasEnded = (job: Overview | undefined): boolean =>
  job !== undefined && ["completed", "failed", "cancelled"].includes(job.status);

export function SelfTest(): JSX.Element | null {
  const [run, setRun] = useState<Run>();
  const [job, setJob] = useState<Overview>();
  const [isLate, setLate] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const control = useRef(new AbortController());
  useEffect(() => () => control.current.abort(), []);
  if (!may("submit")) return null;

  const start = async () => {
    control.current.abort();
    control.current = new AbortController();
    const { signal } = control.current;
    setBusy(true);
    setRun(undefined);
    setJob(undefined);
    setLate(false);
    setError(undefined);
    const askedAt = Date.now();
    try {
      const body = {
        workflow_id: CANARY,
        input_params: { name: "self-test" },
        correlation_id: "self-test",
        dry_run: false,
        priority: 0,
      };
      const made = (await ok(api.POST("/api/v1/jobs", { body, signal }))) as Model<"JobView">;
      setRun({ jobId: made.job_id, askedAt, acceptedMs: Date.now() - askedAt });
      const path = { job_id: made.job_id };
      for (let seen: Overview | undefined; !hasEnded(seen) && !signal.aborted; await delay(LOOK_MS, signal)) {
        const query = { reasons: true };
        seen = (await ok(api.GET("/api/v1/jobs/{job_id}/overview", { params: { path, query }, signal }))) as Overview;
        setJob(seen);
        if (!hasEnded(seen) && Date.now() - askedAt > PATIENCE_MS) {
          setLate(true);
          break;
        }
      }
    } catch (problem) {
      if (!signal.aborted) setError(asApiError(problem));
    }
    if (!signal.aborted) setBusy(false);
  };
  return (
    <Section
      title="Self-test"
      aside={
        <Button icon="play" onClick={() => void start()} busy={busy}>
          Run a self-test
        </Button>
      }
    >
      {error ? <Refused error={error} /> : null}
      {run ? (
        <Steps run={run} job={job} isLate={isLate} />
      ) : error ? null : (
        <p class="soft">
          Submits a job of <code>{CANARY}</code> and follows it through the API, an orchestrator, the queue and a
          worker. On the machine: <code>rmhdag submit {CANARY} --wait</code>
        </p>
      )}
    </Section>
  );
}

function Refused({ error }: { error: ApiError }): JSX.Element {
  if (!error.isMissing) return <ErrorBox error={error} />;
  return (
    <p class="notice tone-warning">
      <Icon name="warning" />
      <span>
        The workflow <code>{CANARY}</code> is not registered here, so there is nothing to test with.{" "}
        <code>rmhdag up</code> registers it.
      </span>
    </p>
  );
}

interface Step {
  words: string;
  /** Missing as long as it has not happened. */
  seconds: number | undefined;
}

function stepsOf(run: Run, job: Overview | undefined): Step[] {
  const between = (from: string | null | undefined, until: string | null | undefined) =>
    from && until ? Math.max(0, (Date.parse(until) - Date.parse(from)) / 1000) : undefined;
  const task = job?.nodes.find((node) => node.type === "task");
  return [
    { words: "The API accepted the job", seconds: run.acceptedMs / 1000 },
    { words: "An orchestrator began it", seconds: between(job?.created_at, job?.started_at) },
    { words: "A worker took its task", seconds: between(task?.dispatched_at, task?.started_at) },
    { words: "The task ran", seconds: between(task?.started_at, task?.completed_at) },
    { words: "The job ended", seconds: between(job?.created_at, job?.completed_at) },
  ];
}

function Steps({ run, job, isLate }: { run: Run; job: Overview | undefined; isLate: boolean }): JSX.Element {
  const steps = stepsOf(run, job);
  const open = steps.find((step) => step.seconds === undefined);
  const reason = job?.nodes.find((node) => node.reason)?.reason;
  const isOver = hasEnded(job);
  const passed = job?.status === "completed";
  return (
    <div class="stack">
      <ol class="self-test">
        {steps.map((step) => (
          <li key={step.words} class={step.seconds === undefined ? "faint" : "tone-good"}>
            <Icon name={step.seconds === undefined ? "clock" : "check"} />
            <span>{step.words}</span>
            <span class="num">{step.seconds === undefined ? "–" : durationText(step.seconds)}</span>
          </li>
        ))}
      </ol>
      <p class={`notice tone-${passed ? "good" : isOver || isLate ? "bad" : "active"}`} role="status">
        <Icon name={passed ? "check" : isOver || isLate ? "warning" : "play"} />
        <span>
          {passed ? (
            "The platform works: a job went through all of it."
          ) : isOver ? (
            <>
              The job of the self-test {job?.status}: {job?.error_message ?? "no reason was given"}
            </>
          ) : isLate ? (
            <>
              Not done after {PATIENCE_MS / 1000} s; this has not happened: “{open?.words}”. {reason?.reason_text}{" "}
              {reason?.hint}
            </>
          ) : (
            (reason?.reason_text ?? "Under way.")
          )}{" "}
          <Link to={to`/jobs/${run.jobId}`}>Open the job</Link>{" "}
          {job ? <Status status={job.status} look="icon" /> : null}
        </span>
      </p>
    </div>
  );
}

/** Actions on several jobs, each with a preview of what it will do. */
import type { JSX } from "preact";
import { api, asApiError, counted, ok, toast } from "~/core";
import { confirm } from "~/widgets";
import type { Job } from "./rows";

const AT_ONCE = 4;
const MOST_PREVIEWED = 20;

/** All of them, a few at a time; what fails does not stop the others. */
export async function each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<string[]> {
  const problems: string[] = [];
  const queue = [...items];
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      try {
        await run(item);
      } catch (error) {
        problems.push(asApiError(error).message);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return problems;
}

export function report(done: number, what: string, problems: readonly string[], to?: string): void {
  if (problems.length === 0) toast({ kind: "done", text: `${what}: ${counted(done, "job")}.`, ...(to ? { to } : {}) });
  else {
    const text = `${what}: ${counted(done, "job")}. ${counted(problems.length, "was", "were")} refused: ${problems[0]}`;
    toast({ kind: "failed", text });
  }
}

const isOver = (job: Job): boolean => ["completed", "failed", "cancelled"].includes(job.status);

export function cancelJobs(jobs: readonly Job[], onDone: () => void): void {
  const open = jobs.filter((job) => !isOver(job));
  const over = jobs.length - open.length;
  confirm({
    title: `Cancel ${counted(open.length, "job")}`,
    preview: (
      <>
        <p>
          What waits never starts, and running tasks are told to stop. Finished results stay, and the jobs can be
          retried later.
        </p>
        <p>
          {counted(open.length, "job")} will be cancelled
          {over > 0 ? `; ${counted(over, "job has", "jobs have")} ended already and stay as they are` : ""}.
        </p>
      </>
    ),
    action: `Cancel ${counted(open.length, "job")}`,
    danger: true,
    reason: "optional",
    run: async (reason) => {
      const problems = await each(open, async ({ job_id }) => {
        const body = reason ? { reason } : {};
        await ok(api.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id } }, body }));
      });
      report(open.length - problems.length, "Cancelled", problems);
      onDone();
    },
  });
}

async function previewRetry(jobs: readonly Job[], everything: boolean): Promise<JSX.Element> {
  let again = 0;
  let reused = 0;
  const asked = jobs.slice(0, MOST_PREVIEWED);
  const problems = await each(asked, async ({ job_id }) => {
    const body = { dry_run: true, everything };
    const plan = await ok(api.POST("/api/v1/jobs/{job_id}/rerun", { params: { path: { job_id } }, body }));
    again += plan.again.length;
    reused += plan.reused.length;
  });
  return (
    <>
      <p>
        Each becomes a new job that is linked to the old one; the old ones stay as they are. {counted(again, "node")}{" "}
        will run again, {counted(reused, "finished result")} will be reused
        {jobs.length > asked.length ? `, in the first ${asked.length} jobs alone` : ""}.
      </p>
      {problems.length > 0 ? (
        <p class="notice tone-warning">
          {counted(problems.length, "job")} cannot be run again: {problems[0]}
        </p>
      ) : null}
    </>
  );
}

export function retryJobs(jobs: readonly Job[], everything: boolean, onDone: () => void): void {
  const able = jobs.filter(everything ? isOver : (job) => job.status === "failed" || job.status === "cancelled");
  const words = everything ? "Run everything again" : "Retry what failed";
  confirm({
    title: `${words}: ${counted(able.length, "job")}`,
    preview: () => previewRetry(able, everything),
    action: `${everything ? "Run" : "Retry"} ${counted(able.length, "job")}${everything ? " again" : ""}`,
    run: async () => {
      const problems = await each(able, async ({ job_id }) => {
        await ok(
          api.POST("/api/v1/jobs/{job_id}/rerun", {
            params: { path: { job_id } },
            body: { everything, dry_run: false },
          }),
        );
      });
      report(able.length - problems.length, "Started again", problems);
      onDone();
    },
  });
}

export const canRetry = (jobs: readonly Job[]): boolean =>
  jobs.some((job) => job.status === "failed" || job.status === "cancelled");
export const canCancel = (jobs: readonly Job[]): boolean => jobs.some((job) => !isOver(job));
export const canRerun = (jobs: readonly Job[]): boolean => jobs.some(isOver);

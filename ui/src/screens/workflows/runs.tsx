/** The last runs of a workflow as bars: height is the duration, colour and shape how it ended. */
import type { JSX } from "preact";
import { counted, countText, durationText, Link, type Model, momentText, shortId } from "~/core";
import { lookOf } from "~/widgets";

type Run = Model<"RecentRun">;

/** One link to the list of these jobs: a bar alone would be too small to hit. */
export function RunBars({ runs, workflow }: { runs: readonly Run[]; workflow: string }): JSX.Element {
  if (runs.length === 0) return <span class="faint small">never run</span>;
  const most = Math.max(1e-6, ...runs.map((run) => run.duration_seconds ?? 0));
  const failed = runs.filter((run) => run.status === "failed").length;
  const label = `The last ${counted(runs.length, "run")} of ${workflow}, ${failed ? countText(failed) : "none"} failed`;
  return (
    <Link class="run-bars" to={`/jobs?q=${encodeURIComponent(`workflow:${workflow}`)}`} aria-label={label}>
      {runs.map((run) => {
        const { word, tone } = lookOf(run.status);
        return (
          <span
            key={run.job_id}
            class={`run-bar tone-${tone} run-${run.status}`}
            title={`${shortId(run.job_id)}: ${word}, ${durationText(run.duration_seconds)}, ${momentText(run.created_at)}`}
          >
            <i style={{ height: `${Math.max(18, (100 * (run.duration_seconds ?? 0)) / most)}%` }} />
          </span>
        );
      })}
    </Link>
  );
}

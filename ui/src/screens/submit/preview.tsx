/** What would happen: whether the server would accept it, which nodes run, and how long that usually takes. */
import type { JSX } from "preact";
import { type ApiError, bytesText, counted, countText, durationText, type Model, useResource } from "~/core";
import { ErrorBox, Facts, Icon, MiniGraph, Section } from "~/widgets";
import { lastRuns } from "./last-runs";

interface DryRunProps {
  workflow: Model<"WorkflowDetail">;
  preview: Model<"JobPreview"> | Model<"OrderPreview"> | undefined;
  error: ApiError | undefined;
  /** Problems that belong to no field. */
  others: readonly Model<"PreviewProblem">[];
  touched: boolean;
}

export function DryRun({ workflow, preview, error, others, touched }: DryRunProps): JSX.Element {
  const count = preview?.problems?.length ?? 0;
  const order = preview && "outcome" in preview ? preview : undefined;
  return (
    <Section title="What would happen" class="dry-run">
      {error ? <ErrorBox error={error} what="the check" /> : null}
      {preview === undefined && !error ? <p class="faint">Checking…</p> : null}
      {preview ? (
        <p class={`verdict tone-${preview.valid ? "good" : touched ? "bad" : "waiting"}`} role="status">
          <Icon name={preview.valid ? "check" : touched ? "cross" : "edit"} />
          {preview.valid
            ? verdictOf(order)
            : touched
              ? `${counted(count, "problem")} to solve`
              : "Fill in what is required"}
        </p>
      ) : null}
      {touched && others.length > 0 ? (
        <ul class="problems">
          {others.slice(0, 8).map((one) => (
            <li key={`${one.pointer} ${one.detail}`}>
              <code>{one.pointer || "/"}</code> {one.detail} {one.remedy ?? ""}
            </li>
          ))}
        </ul>
      ) : null}
      {(preview?.warnings ?? []).map((one) => (
        <p key={one.code} class="notice tone-warning">
          <Icon name="warning" />
          <span>{one.message}</span>
        </p>
      ))}
      <Plan workflow={workflow} estimate={preview?.estimate} />
      {preview?.valid && preview.input_params ? (
        <details>
          <summary>All parameters with their defaults</summary>
          <Facts
            items={Object.entries(preview.input_params).map(
              ([name, value]) => [name, <code key={name}>{JSON.stringify(value)}</code>] as const,
            )}
          />
        </details>
      ) : null}
    </Section>
  );
}

function verdictOf(order: Model<"OrderPreview"> | undefined): string {
  if (!order) return "The server would accept this";
  const review = order.waits_for_review ? "; it waits for a reviewer before it is served" : "";
  if (order.outcome === "join") return `Joins the job that makes revision ${order.revision} with the same parameters`;
  if (order.outcome === "repeat") return "The same order was accepted before, and would be answered with its job";
  return `${order.asset_exists ? "Makes" : "Makes a new asset with"} revision ${order.revision ?? 1}${review}`;
}

function tasksText({ tasks }: Model<"JobEstimate">): string {
  return tasks === null ? "only the job will know: it depends on what it finds" : countText(tasks);
}

interface PlanProps {
  workflow: Model<"WorkflowDetail">;
  estimate: Model<"JobEstimate"> | null | undefined;
}

function Plan({ workflow, estimate }: PlanProps): JSX.Element {
  const { workflow_id } = workflow;
  const usual = useResource(() => lastRuns(workflow_id), [workflow_id]);
  const seconds = (usual.data.value ?? [])
    .flatMap((job) => (job.status === "completed" ? (job.duration_seconds ?? []) : []))
    .sort((one, other) => one - other);
  const at = (share: number) => seconds[Math.min(seconds.length - 1, Math.floor(share * seconds.length))];
  return (
    <>
      <Facts
        items={[
          ["Workflow", `${workflow_id} version ${workflow.version}`],
          [
            "Usually takes",
            seconds.length
              ? `${durationText(at(0.5))}, rarely more than ${durationText(at(0.95))} (last ${counted(seconds.length, "run")})`
              : "not known yet: it has not completed before",
          ],
          ...(estimate ? [["Tasks", tasksText(estimate)] as const] : []),
          ...(estimate?.input_bytes == null ? [] : [["Reads", bytesText(estimate.input_bytes)] as const]),
        ]}
      />
      <MiniGraph layout={workflow.layout} label="Nodes of the workflow, in the order of the graph" />
    </>
  );
}

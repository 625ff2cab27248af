/** The list as a file. */
import { api, labelTexts, ok } from "~/core";
import type { JobQuery } from "./query";
import type { Job } from "./rows";

const MOST = 10_000;
const COLUMNS = [
  "job_id",
  "workflow_id",
  "workflow_version",
  "status",
  "submitted_by",
  "correlation_id",
  "created_at",
  "started_at",
  "completed_at",
  "duration_seconds",
  "error_message",
  "labels",
] as const satisfies readonly (keyof Job)[];

/** All jobs of a query, up to 10,000. */
export async function readAll(query: JobQuery): Promise<Job[]> {
  const jobs: Job[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await ok(
      api.GET("/api/v1/jobs", { params: { query: { ...query, limit: 500, ...(cursor ? { cursor } : {}) } } }),
    );
    jobs.push(...page.jobs);
    cursor = page.next_cursor;
  } while (cursor && jobs.length < MOST);
  return jobs.slice(0, MOST);
}

/** A text that begins like a formula would be run by a spreadsheet. */
function cell(value: unknown): string {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value === "string" ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function toCsv(jobs: readonly Job[]): string {
  const lines = jobs.map((job) =>
    COLUMNS.map((name) => cell(name === "labels" ? labelTexts(job.labels ?? {}).join(" ") : job[name])).join(","),
  );
  return `${[COLUMNS.join(","), ...lines].join("\r\n")}\r\n`;
}

export function saveFile(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The same submission for a terminal and a program. */
import { type Labels, labelTexts } from "~/core/labels";
import type { Values } from "./inputs";

export interface Order {
  workflow_id: string;
  values: Values;
  platform_id?: string | undefined;
  refs?: Record<string, string> | undefined;
  labels?: Labels;
}

const quoted = (text: string): string => (/^[\w./:,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function cliText({ workflow_id, values, platform_id, refs, labels }: Order): string {
  const params = Object.entries(values).map(([name, value]) =>
    quoted(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`),
  );
  const platform = platform_id
    ? [
        "--platform",
        quoted(platform_id),
        ...Object.entries(refs ?? {}).flatMap(([name, value]) => ["--ref", quoted(`${name}=${value}`)]),
      ]
    : [];
  const labelled = labelTexts(labels ?? {}).flatMap((text) => ["--label", quoted(text)]);
  return ["rmhdag submit", quoted(workflow_id), ...params, ...platform, ...labelled, "--wait"].join(" ");
}

const hasLabels = (labels: Labels | undefined): labels is Labels => Object.keys(labels ?? {}).length > 0;

export function bodyOf({ workflow_id, values, platform_id, refs, labels }: Order): Record<string, unknown> {
  return {
    workflow_id,
    input_params: values,
    ...(platform_id ? { platform_id, platform_refs: refs ?? {} } : {}),
    ...(hasLabels(labels) ? { labels } : {}),
  };
}

export function curlText(order: Order): string {
  const path = order.platform_id ? "/api/v1/submit" : "/api/v1/jobs";
  return [
    `curl -sS "$RMHDAG_URL${path}" \\`,
    '  -H "Authorization: Bearer $RMHDAG_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -H "Idempotency-Key: $(date +%s)-$$" \\`,
    `  -d ${quoted(JSON.stringify(bodyOf(order)))}`,
  ].join("\n");
}

/** JSON as Python writes it. */
function python(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

export function pythonText({ workflow_id, values, platform_id, refs, labels }: Order): string {
  const head = "from rmhdag import Client\n\nwith Client() as client:\n";
  if (platform_id)
    return `${head}    order = client.submit_request(\n        ${JSON.stringify(workflow_id)},\n        ${python(values)},\n        platform_id=${JSON.stringify(platform_id)},\n        platform_refs=${python(refs ?? {})},\n${hasLabels(labels) ? `        labels=${python(labels)},\n` : ""}    )\n    print(order.job_id)\n`;
  const more = hasLabels(labels) ? `, labels=${python(labels)}` : "";
  return `${head}    job = client.submit(${JSON.stringify(workflow_id)}, ${python(values)}${more}).wait(progress=True)\n    print(job.outputs)\n`;
}

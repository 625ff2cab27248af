/** The query language of the list: `status:failed workflow:ndvi since:2h by:ada` and plain words. */
import { labelProblem } from "~/core/labels";
import { parseSince } from "~/core/time";

export const STATUSES = ["pending", "running", "completed", "failed", "cancelled"] as const;
export type JobStatus = (typeof STATUSES)[number];

/** What each word stands for, for help and suggestions. */
export const WORDS: Record<string, string> = {
  status: STATUSES.join(", "),
  workflow: "id of a workflow",
  by: "who submitted it",
  correlation: "the caller's own name for it",
  label: "a label such as aoi=oslo, or its key; tag: is the same",
  since: "created in the last 2h, 30m, 7d, or since 2026-11-01",
  until: "created before",
  finished: "finished in the last 24h, or since a date",
  failure: "jobs with the same error; made by the dashboard",
  area: "west,south,east,north of what it published",
  rerun_of: "id of the job that was run again",
  parent: "id of the job that started it",
};

export interface JobQuery {
  status?: JobStatus[];
  workflow_id?: string;
  submitted_by?: string;
  correlation_id?: string;
  since?: string;
  until?: string;
  finished_since?: string;
  failure?: string;
  bbox?: string;
  rerun_of?: string;
  parent_job_id?: string;
  label?: string[];
  q?: string;
}

const NAMES = {
  workflow: "workflow_id",
  by: "submitted_by",
  correlation: "correlation_id",
  failure: "failure",
  area: "bbox",
  rerun_of: "rerun_of",
  parent: "parent_job_id",
} as const;
const MOMENTS = { since: "since", until: "until", finished: "finished_since" } as const;

export interface Token {
  text: string;
  word?: string;
  value: string;
}

export function tokens(text: string): Token[] {
  return (text.match(/\S+:"[^"]*"|\S+/g) ?? []).map((token) => {
    const parts = /^([a-z_]+):(.*)$/.exec(token);
    if (!parts?.[1]) return { text: token, value: token };
    return { text: token, word: parts[1], value: (parts[2] ?? "").replace(/^"|"$/g, "") };
  });
}

/** The parameters of the API, or a sentence about what is wrong. */
export function parseQuery(text: string): { query: JobQuery; problem?: string } {
  const query: JobQuery = {};
  const plain: string[] = [];
  for (const { word, value, text: token } of tokens(text)) {
    if (word === undefined) plain.push(token);
    else if (word === "status") {
      const wrong = value.split(",").find((one) => !(STATUSES as readonly string[]).includes(one));
      if (wrong !== undefined) return { query, problem: `There is no status “${wrong}”: ${STATUSES.join(", ")}.` };
      query.status = [...(query.status ?? []), ...(value.split(",") as JobStatus[])];
    } else if (word === "label" || word === "tag") {
      const wrong = labelProblem(value);
      if (wrong) return { query, problem: wrong };
      query.label = [...(query.label ?? []), value];
    } else if (word in MOMENTS) {
      const moment = parseSince(value);
      if (!moment) return { query, problem: `“${value}” is no time: write 2h, 30m, 7d or a date such as 2026-11-01.` };
      query[MOMENTS[word as keyof typeof MOMENTS]] = moment.toISOString();
    } else if (word in NAMES) {
      if (word === "area" && !/^-?\d+(\.\d+)?(,-?\d+(\.\d+)?){3}$/.test(value)) {
        return { query, problem: "An area is four numbers: west,south,east,north in degrees." };
      }
      if (word === "failure" && !/^[0-9a-f]{12}$/.test(value)) {
        return { query, problem: "A failure is twelve characters, as the dashboard writes them." };
      }
      if (value) query[NAMES[word as keyof typeof NAMES]] = value;
    } else {
      return { query, problem: `“${word}:” is not known here; there are ${Object.keys(WORDS).join(", ")}.` };
    }
  }
  if (plain.length > 1) return { query, problem: "Search for one word: the beginning of an id or a name." };
  if (plain[0]) query.q = plain[0];
  return { query };
}

/** The query with one word set to a value, or without it. */
export function withWord(text: string, word: string, value: string | null): string {
  const rest = tokens(text).filter((token) => token.word !== word);
  const shown = value === null ? [] : [`${word}:${/\s/.test(value) ? `"${value}"` : value}`];
  return [...rest.map((token) => token.text), ...shown].join(" ");
}

/** The query without one of its parts; another one of the same word stays. */
export function withoutToken(text: string, gone: Token): string {
  return tokens(text)
    .map((token) => token.text)
    .filter((one) => one !== gone.text)
    .join(" ");
}

/** `status:` with this status added or taken away. */
export function withStatus(text: string, status: JobStatus): string {
  const chosen = new Set(parseQuery(text).query.status ?? []);
  if (!chosen.delete(status)) chosen.add(status);
  return withWord(text, "status", chosen.size ? STATUSES.filter((one) => chosen.has(one)).join(",") : null);
}

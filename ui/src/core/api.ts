/** Typed calls to the HTTP API. The types come from its own OpenAPI document; refusals come as `ApiError`. */
import createClient from "openapi-fetch";
import type { components, paths } from "../../generated/schema";

/** A model of the API by its name: `Model<"JobSummary">`. */
export type Model<Name extends keyof components["schemas"]> = components["schemas"][Name];
export type Problem = Model<"ProblemBody">;

/** What the API refused or could not do. `message` is a sentence for people. */
export class ApiError extends Error {
  readonly status: number;
  /** A word for programs, such as `not_found`; `unreachable` if there was no answer. */
  readonly code: string;
  readonly remedy: string | undefined;
  /** Each thing that is wrong, with its JSON pointer into the body, or `/query/…`. */
  readonly places: NonNullable<Problem["errors"]>;

  constructor(status: number, problem: Partial<Problem>) {
    super(sentence(problem.detail ?? problem.title ?? `The server answered ${status}`));
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? "unexpected";
    this.remedy = problem.remedy ?? undefined;
    this.places = problem.errors ?? [];
  }

  get isSignedOut(): boolean {
    return this.status === 401;
  }

  get isForbidden(): boolean {
    return this.status === 403;
  }

  get isMissing(): boolean {
    return this.status === 404;
  }

  /** Nobody answered, or not now: worth trying again without a change. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

type Heard = (ok: boolean, error?: ApiError) => void;
const listeners = new Set<Heard>();

/** Called after every answer; the shell shows from it that the server is gone, or the session over. */
export function onAnswer(heard: Heard): () => void {
  listeners.add(heard);
  return () => listeners.delete(heard);
}

function note(error?: ApiError): void {
  for (const heard of listeners) heard(error === undefined || error.status !== 0, error);
}

/** When the first answer came, by the clock of the server: all that a page shows was read then or later. */
export let firstAnswerAt: number | undefined;

async function fetchOnce(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    firstAnswerAt ??= Date.parse(response.headers.get("Date") ?? "") || undefined;
    return response;
  } catch (error) {
    if (request.signal.aborted) throw error;
    const unreachable = new ApiError(0, {
      code: "unreachable",
      detail: "the server does not answer",
      remedy: "What you see stays; it is loaded again as soon as the server is back.",
    });
    note(unreachable);
    throw unreachable;
  }
}

/** `api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id } }, signal })`; wrap each call in `ok`. */
export const api = createClient<paths>({
  baseUrl: window.location.origin,
  credentials: "same-origin",
  fetch: fetchOnce,
  headers: { Accept: "application/json" },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer; anything else is thrown as `ApiError`. */
export async function ok<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response.ok) {
    note();
    return data as T;
  }
  const problem = new ApiError(response.status, typeof error === "object" && error !== null ? error : {});
  note(problem);
  throw problem;
}

/** Any thrown value as an `ApiError`, for showing it. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(-1, { code: "unexpected", detail: error instanceof Error ? error.message : String(error) });
}

/** A plain GET for what the OpenAPI document describes as text or bytes. */
export async function getText(address: string, signal?: AbortSignal): Promise<string> {
  const response = await fetchOnce(new Request(address, { signal: signal ?? null, credentials: "same-origin" }));
  const text = await response.text();
  if (!response.ok) {
    let problem: Partial<Problem> = {};
    try {
      problem = JSON.parse(text) as Partial<Problem>;
    } catch {
      problem = { detail: text.slice(0, 300) };
    }
    throw new ApiError(response.status, problem);
  }
  note();
  return text;
}

/** Who is signed in, and what that person may do. Buttons ask `may`; the API decides. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { type ApiError, api, asApiError, type Model, ok } from "./api";

export type Scope = Model<"Scope">;
export type Me = Model<"Me">;

/** `checking` until the first answer; `unreachable` if the server does not answer. */
export type SessionState = "checking" | "signed-in" | "signed-out" | "unreachable";

const who = signal<Me | undefined>(undefined);
const state = signal<SessionState>("checking");
export const me: ReadonlySignal<Me | undefined> = who;
export const sessionState: ReadonlySignal<SessionState> = state;

/** What `admin` does not include. */
const APART: ReadonlySet<string> = new Set(["worker", "platform", "gateway"]);

function includes(scopes: readonly string[], scope: Scope): boolean {
  return scopes.includes(scope) || (scopes.includes("admin") && !APART.has(scope));
}

/** Whether to offer what needs this scope. Reads a signal: a component that calls it follows changes. */
export function may(scope: Scope): boolean {
  return includes(who.value?.scopes ?? [], scope);
}

/** The same as a signal. */
export function mayNow(scope: Scope): ReadonlySignal<boolean> {
  return computed(() => may(scope));
}

export async function checkSession(): Promise<void> {
  try {
    who.value = await ok(api.GET("/api/v1/me", {}));
    state.value = "signed-in";
  } catch (error) {
    const problem: ApiError = asApiError(error);
    if (problem.isSignedOut || problem.isForbidden) {
      who.value = undefined;
      state.value = "signed-out";
    } else if (state.value === "checking") state.value = "unreachable";
  }
}

/** The session is over: show the sign-in page, and come back to this place afterwards. */
export function sessionEnded(): void {
  if (state.value === "signed-in") state.value = "signed-out";
}

/** Short messages about what just happened, with a way to it. */
import { signal } from "@preact/signals";
import { type ApiError, asApiError } from "./api";

export interface Toast {
  id: number;
  kind: "done" | "info" | "failed";
  text: string;
  /** Where the result is, below `/ui`. */
  to?: string;
  linkText?: string;
}

export const toasts = signal<readonly Toast[]>([]);
let next = 1;

/** `toast({ kind: "done", text: "The job was cancelled.", to: "/jobs/…", linkText: "Open the job" })` */
export function toast(message: Omit<Toast, "id">): void {
  const added = { ...message, id: next++ };
  toasts.value = [...toasts.peek().slice(-3), added];
  window.setTimeout(() => dismissToast(added.id), message.kind === "failed" ? 12_000 : 6_000);
}

export function toastError(error: unknown): void {
  const problem: ApiError = asApiError(error);
  toast({ kind: "failed", text: [problem.message, problem.remedy].filter(Boolean).join(" ") });
}

export function dismissToast(id: number): void {
  toasts.value = toasts.peek().filter((one) => one.id !== id);
}

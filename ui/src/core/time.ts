/** Moments and durations in words, as the command line says them. */
import { signal } from "@preact/signals";
import { zone } from "./preferences";

/** The present, once a second while the page is visible; once for all who show an age. */
export const now = signal(Date.now());
window.setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** `850 ms`, `12.3 s`, `2m 14s`, `3h 5m`, `4d 2h`. */
export function durationText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m ${whole % 60}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ${minutes % 60}m` : `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** `just now`, `12 s ago`, `in 3 min`, `5 h ago`, `2 d ago`. */
export function ageText(at: Date | string | number, present: number = now.value): string {
  const seconds = (present - new Date(at).getTime()) / 1000;
  const size = Math.abs(seconds);
  if (size < 2) return "just now";
  const words =
    size < 60
      ? `${Math.floor(size)} s`
      : size < 3600
        ? `${Math.floor(size / 60)} min`
        : size < 48 * 3600
          ? `${Math.floor(size / 3600)} h`
          : `${Math.floor(size / 86400)} d`;
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

export function zoneName(): string {
  if (zone.value === "utc") return "UTC";
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** `2026-11-17 22:14:09 Europe/Oslo`, in the zone that is chosen. */
export function momentText(at: Date | string | number, { seconds = true, named = true } = {}): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const parts = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone.value === "utc" ? "UTC" : undefined,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    ...(seconds ? { second: "2-digit" } : {}),
  }).format(date);
  return named ? `${parts} ${zoneName()}` : parts;
}

/** `14:09:31`, for logs and axes. */
export function clockText(at: Date | string | number): string {
  return momentText(at, { named: false }).slice(11);
}

/** `2h`, `30m`, `7d` before now as a moment; undefined if it is no such text. A date is taken as it is. */
export function parseSince(text: string): Date | undefined {
  const parts = /^(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)$/.exec(text.trim());
  if (parts) {
    const unit = { s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 }[parts[2] as "s"];
    return new Date(Date.now() - Number(parts[1]) * unit * 1000);
  }
  const date = new Date(text);
  return /^\d{4}-\d{2}/.test(text) && !Number.isNaN(date.getTime()) ? date : undefined;
}

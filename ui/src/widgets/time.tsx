/** Moments and durations on the page: relative, with the exact moment on hover and for screen readers. */
import type { JSX } from "preact";
import { ageText, clockText, durationText, momentText, now } from "../core/time";

/** `3 min ago`, ticking; hovering shows the moment with its zone. `exact` shows the moment itself. */
export function Time({
  at,
  exact = false,
  empty = "–",
}: {
  at: string | null | undefined;
  exact?: boolean | "clock";
  empty?: string;
}): JSX.Element {
  if (!at) return <span class="faint">{empty}</span>;
  const whole = momentText(at);
  const text = exact === "clock" ? clockText(at) : exact ? momentText(at, { named: false }) : ageText(at, now.value);
  return (
    <time dateTime={at} title={exact ? `${whole} (${ageText(at, now.peek())})` : whole}>
      {text}
    </time>
  );
}

/** `2m 14s`. With `since` and no `seconds` it counts on by itself. */
export function Duration({
  seconds,
  since,
}: {
  seconds?: number | null | undefined;
  since?: string | null | undefined;
}): JSX.Element {
  if (since && (seconds === undefined || seconds === null)) {
    return <span class="num">{durationText(Math.floor((now.value - new Date(since).getTime()) / 1000))}</span>;
  }
  return <span class="num">{durationText(seconds)}</span>;
}

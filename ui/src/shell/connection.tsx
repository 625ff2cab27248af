/** Whether the server is there and how fresh the page is, in words. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { JSX } from "preact";
import { liveAt, liveState } from "../core/live";
import { checkSession } from "../core/session";
import { ageText, now } from "../core/time";

const lostAt = signal<number | undefined>(undefined);
/** Since when no call has reached the server; undefined while it answers. */
export const connectionLostAt: ReadonlySignal<number | undefined> = lostAt;
let timer: number | undefined;

export function noteAnswer(reached: boolean): void {
  if (reached) {
    lostAt.value = undefined;
    window.clearInterval(timer);
    timer = undefined;
  } else if (lostAt.peek() === undefined) {
    lostAt.value = Date.now();
    // So that the page recovers even where nothing else asks.
    timer ??= window.setInterval(() => void checkSession(), 2000);
  }
}

/** Shown only when it has lasted: a restart of the server is no news. What is on the page stays readable. */
export function ConnectionBar(): JSX.Element | null {
  const since = lostAt.value;
  if (since === undefined || now.value - since < 2000) return null;
  return (
    <div class="connection-bar" role="alert">
      <strong>The server does not answer.</strong> You see what was loaded {ageText(since)}. Trying again every two
      seconds.
    </div>
  );
}

const WORDS = { live: "Live", connecting: "Connecting", polling: "Reconnecting", paused: "Paused" };

export function LiveDot(): JSX.Element {
  const state = lostAt.value === undefined ? liveState.value : "polling";
  const detail = {
    live: "Changes appear within a second.",
    connecting: "The stream of events is being opened.",
    polling: `The stream of events is interrupted, last heard ${ageText(liveAt.value)}. Screens read again every few seconds.`,
    paused: "This tab is hidden and reads nothing.",
  }[state];
  return (
    <span class={`live-dot live-${state}`} title={detail} data-live={state}>
      <span class="dot" />
      <span class="live-word">{WORDS[state]}</span>
      {state === "polling" ? <span class="faint num">{ageText(liveAt.value)}</span> : null}
      <span class="sr-only">{detail}</span>
    </span>
  );
}

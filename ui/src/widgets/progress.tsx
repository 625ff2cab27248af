/** How far something is. */
import type { JSX } from "preact";
import { countText } from "../core/numbers";
import type { Tone } from "./status";

export interface Share {
  count: number;
  tone: Tone;
  word: string;
}

/** One bar of several shares, with the counts in words for screen readers and on hover. */
export function ProgressBar({
  shares,
  total,
  label,
}: {
  shares: readonly Share[];
  total: number;
  label: string;
}): JSX.Element {
  const visible = shares.filter((share) => share.count > 0);
  const text = visible.map((share) => `${countText(share.count)} ${share.word}`).join(", ") || "nothing yet";
  return (
    <span
      class="progress"
      role="img"
      aria-label={`${label}: ${text} of ${countText(total)}`}
      title={`${text} of ${countText(total)}`}
    >
      {visible.map((share) => (
        <span
          key={share.word}
          class={`progress-share tone-${share.tone}`}
          style={{ width: `${(100 * share.count) / Math.max(1, total)}%` }}
        />
      ))}
    </span>
  );
}

interface Counts {
  total: number;
  completed: number;
  failed: number;
  skipped: number;
  cancelled: number;
  running: number;
}

/** The shares of a `NodeCounts`, what is done first. */
export function sharesOf(counts: Counts): Share[] {
  return [
    { count: counts.completed, tone: "good", word: "completed" },
    { count: counts.failed, tone: "bad", word: "failed" },
    { count: counts.skipped + counts.cancelled, tone: "off", word: "skipped or cancelled" },
    { count: counts.running, tone: "active", word: "running" },
  ];
}

/** The one vocabulary of states: an icon, a word and a colour, always all three. */
import type { JSX } from "preact";
import { Icon, type IconName } from "./icon";

/** Tones are tokens of the style sheets: `--tone-good`, `--tone-good-soft`, … */
export type Tone = "good" | "bad" | "active" | "waiting" | "warning" | "off";

interface Look {
  word: string;
  icon: IconName;
  tone: Tone;
}

const LOOKS: Record<string, Look> = {
  pending: { word: "pending", icon: "clock", tone: "waiting" },
  ready: { word: "ready", icon: "ready", tone: "waiting" },
  dispatched: { word: "queued", icon: "inbox", tone: "waiting" },
  received: { word: "received", icon: "inbox", tone: "active" },
  running: { word: "running", icon: "play", tone: "active" },
  completed: { word: "completed", icon: "check", tone: "good" },
  failed: { word: "failed", icon: "cross", tone: "bad" },
  skipped: { word: "skipped", icon: "skip", tone: "off" },
  cancelled: { word: "cancelled", icon: "stop", tone: "off" },
  lost: { word: "worker lost", icon: "warning", tone: "warning" },
  stale: { word: "given back", icon: "retry", tone: "off" },
  approved: { word: "approved", icon: "check", tone: "good" },
  rejected: { word: "rejected", icon: "cross", tone: "bad" },
  revoked: { word: "revoked", icon: "stop", tone: "warning" },
  pending_review: { word: "waiting for review", icon: "approval", tone: "waiting" },
  healthy: { word: "healthy", icon: "check", tone: "good" },
  degraded: { word: "degraded", icon: "warning", tone: "warning" },
  unhealthy: { word: "unhealthy", icon: "cross", tone: "bad" },
  active: { word: "active", icon: "play", tone: "good" },
  draining: { word: "draining", icon: "pause", tone: "warning" },
  dead: { word: "dead", icon: "cross", tone: "bad" },
  idle: { word: "idle", icon: "ready", tone: "off" },
  stopped: { word: "stopped", icon: "stop", tone: "off" },
};

/** Words for states that a newer server may have are shown as they are. */
export function lookOf(status: string): Look {
  return LOOKS[status.toLowerCase()] ?? { word: status.replaceAll("_", " ").toLowerCase(), icon: "about", tone: "off" };
}

interface StatusProps {
  status: string;
  /** `pill` has a soft background, `plain` has none, `icon` hides the word from sight but not from screen readers. */
  look?: "pill" | "plain" | "icon";
  /** Another word, such as "failing" for a job that drains. */
  word?: string;
}

export function Status({ status, look = "pill", word }: StatusProps): JSX.Element {
  const { word: usual, icon, tone } = lookOf(status);
  return (
    <span
      class={`status status-${look} tone-${tone}`}
      data-status={status}
      title={look === "icon" ? (word ?? usual) : undefined}
    >
      <Icon name={icon} size={14} />
      <span class={look === "icon" ? "sr-only" : ""}>{word ?? usual}</span>
    </span>
  );
}

/** In which environment one is, on every page: what is done in production is meant. The server wrote it into the page. */
import type { JSX } from "preact";

const name = document.documentElement.dataset.environment ?? "";

/** Names that people give to what others depend on, to rehearsals of it, and to what is their own. */
const TONES: [tone: string, names: RegExp][] = [
  ["bad", /^(prod|production|live)\b/i],
  ["active", /^(dev|development|local|sandbox)\b/i],
];
const tone = TONES.find(([, names]) => names.test(name))?.[0] ?? "warning";

// The border is around the whole page: on a narrow screen the badge is small.
if (name && tone === "bad") document.documentElement.dataset.guarded = "";

export function EnvironmentBadge(): JSX.Element | null {
  if (!name) return null;
  return (
    <span class={`environment tone-${tone}`} title={`Environment: ${name}`} data-tone={tone}>
      <span class="sr-only">Environment: </span>
      {name}
    </span>
  );
}

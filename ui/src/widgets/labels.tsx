/** Labels, each a way to the jobs that have it. */
import type { JSX } from "preact";
import { type Labels, labelTexts } from "../core/labels";
import { Link } from "../core/router";

export function LabelList({ labels }: { labels: Labels | undefined }): JSX.Element | null {
  const texts = labelTexts(labels ?? {});
  if (texts.length === 0) return null;
  return (
    <span class="labels">
      {texts.map((text) => (
        <Link key={text} class="label" to={`/jobs?q=${encodeURIComponent(labelWord(text))}`}>
          {text}
        </Link>
      ))}
    </span>
  );
}

/** As the query language of the list has it. */
function labelWord(text: string): string {
  return /\s/.test(text) ? `label:"${text}"` : `label:${text}`;
}

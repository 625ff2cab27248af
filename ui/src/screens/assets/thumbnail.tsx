/** Pictures of revisions, as the tasks made them. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "~/widgets";

/** A small picture; its place is kept while it loads, and has a sign if there is none. */
export function Thumbnail({
  path,
  size = "small",
}: {
  path: string | null | undefined;
  size?: "small" | "large";
}): JSX.Element {
  const [failed, setFailed] = useState(false);
  return (
    <span class={`thumbnail thumbnail-${size}`}>
      {path && !failed ? (
        <img src={path} alt="" loading="lazy" decoding="async" onError={() => setFailed(true)} />
      ) : (
        <Icon name="asset" />
      )}
    </span>
  );
}

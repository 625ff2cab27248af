/** A sentence that stands out, with the icon of its tone. */
import type { ComponentChildren, JSX } from "preact";
import { Icon } from "~/widgets";
import type { MapTone } from "./types";

export function Notice({ tone, children }: { tone: MapTone; children: ComponentChildren }): JSX.Element {
  const icon = ({ bad: "cross", good: "check", warning: "warning" } as const)[tone as "bad"] ?? "about";
  return (
    <div class={`notice tone-${tone}`}>
      <Icon name={icon} />
      <div>{children}</div>
    </div>
  );
}

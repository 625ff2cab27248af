/** The mark: a small graph, as in the icon of the tab. */
import type { JSX } from "preact";

export function BrandMark(): JSX.Element {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M9.5 9.5h9M9 11l5.5 10M22.4 12.6 18 20" />
      <circle cx="8.5" cy="9.5" r="3" />
      <circle cx="23.5" cy="9.5" r="3" />
      <circle class="brand-end" cx="16" cy="23" r="3.4" />
    </svg>
  );
}

/** Drawn at 16 × 16, in the colour of the text. Icons only accompany words, so they are hidden from screen readers. */
import type { JSX } from "preact";

const PATHS = {
  home: "M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5M6.5 13V9.5h3V13",
  jobs: "M3 4h10M3 8h10M3 12h6",
  workflow: "M3 3h4v3H3zM9 10h4v3H9zM5 6v2.5a1 1 0 0 0 1 1h5V10",
  submit: "M8 3v10M3 8h10",
  asset: "M2.5 5 8 2.5 13.5 5 8 7.5zM2.5 8 8 10.5 13.5 8M2.5 11 8 13.5l5.5-2.5",
  approval: "M8 2.5 13 4.5v4c0 2.8-2.2 4.5-5 5.5-2.8-1-5-2.7-5-5.5v-4zM5.8 8l1.6 1.6L10.4 6.5",
  node: "M3 3.5h10v3.5H3zM3 9h10v3.5H3zM5 5.3h.01M5 10.8h.01",
  task: "M3.5 3.5h9v9h-9zM6 8l1.5 1.5L10.5 6.5",
  queue: "M3 4.5h10M3 8h10M3 11.5h10M2.9 4.5h.01",
  health: "M2 8.5h3l1.5-4 3 7.5 1.5-3.5h3",
  settings: "M3 5h6M11.5 5H13M3 11h1.5M7 11h6M10 3.5v3M5.5 9.5v3",
  about: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.3v3.4M8 5.2h.01",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.2 3.2",
  check: "M3.5 8.5 6.5 11.5 12.5 4.5",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  play: "M5.5 3.5v9l7-4.5z",
  clock: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8M8 5v3.2l2 1.3",
  skip: "M4 4v8l5-4zM11.5 4v8",
  stop: "M4.5 4.5h7v7h-7z",
  warning: "M8 3 14 13H2zM8 7v2.8M8 11.4h.01",
  ready: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8",
  inbox: "M3 8.5 4.5 3.5h7L13 8.5v4H3zM3 8.5h3l1 1.5h2l1-1.5h3",
  retry: "M12.5 8a4.5 4.5 0 1 1-1.3-3.2M12.5 2.8v2.6H9.9",
  copy: "M6 6h6.5v7H6zM3.5 10V3H10",
  link: "M6.5 9.5l3-3M7.5 5l1.4-1.4a2.4 2.4 0 0 1 3.4 3.4L11 8.4M8.5 11l-1.4 1.4a2.4 2.4 0 0 1-3.4-3.4L5 7.6",
  down: "M4 6.5l4 4 4-4",
  right: "M6.5 4l4 4-4 4",
  left: "M9.5 4l-4 4 4 4",
  up: "M4 9.5l4-4 4 4",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13h10",
  filter: "M2.5 4h11l-4.2 5v4l-2.6-1.3V9z",
  map: "M2.5 4.5 6 3l4 1.5 3.5-1.5v8.5L10 13l-4-1.5L2.5 13zM6 3v8.5M10 4.5V13",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1",
  moon: "M12.8 9.6A5.3 5.3 0 0 1 6.4 3.2a5.3 5.3 0 1 0 6.4 6.4",
  contrast: "M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8M8 2.8v10.4M8 5h4M8 8h5M8 11h4",
  system: "M2.5 3.5h11v7h-11zM6 13h4M8 10.5V13",
  out: "M6.5 3h-3v10h3M7 8h6M10.8 5.6 13.2 8l-2.4 2.4",
  key: "M10.5 2.8a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4M8.5 7.5 3 13M4.6 11.4l1.6 1.6M6.3 9.7l1.4 1.4",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM6.8 13.5h2.4",
  edit: "M3 13l.6-2.8L10.5 3.3l2.2 2.2-6.9 6.9z",
  trash: "M3.5 4.5h9M6 4.5V3h4v1.5M5 4.5l.5 8.5h5l.5-8.5",
  pause: "M5.5 4v8M10.5 4v8",
  eye: "M1.8 8S4 3.8 8 3.8 14.2 8 14.2 8 12 12.2 8 12.2 1.8 8 1.8 8M8 6.3a1.7 1.7 0 1 0 0 3.4 1.7 1.7 0 0 0 0-3.4",
  graph:
    "M4 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M12 9.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M4 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M5.5 4.3l5 3M5.5 11.5l5-2.8",
  log: "M3 3h10v10H3zM5.5 6h5M5.5 8.2h5M5.5 10.4h3",
  fan: "M3 8h3M6 8l4.5-4M6 8h4.5M6 8l4.5 4M12.5 4h.01M12.5 8h.01M12.5 12h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({
  name,
  size = 16,
  class: className,
}: {
  name: IconName;
  size?: number;
  class?: string;
}): JSX.Element {
  return (
    <svg class={`icon ${className ?? ""}`} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

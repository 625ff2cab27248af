/** Which of a million lines are in sight. Browsers stop at about 17 million pixels, so a long log has a scroll height that
 * stands for more than it is: the scroll bar moves in steps of many lines, wheel and keys by exact pixels. */

export const ROW_PX = 18;
export const MOST_PX = 8_000_000;

export interface LogWindow {
  total: number;
  /** Height of what is in sight. */
  viewPx: number;
}

/** How tall the scrolled content is. */
export function heightOf({ total, viewPx }: LogWindow): number {
  return Math.min(MOST_PX, Math.max(viewPx, total * ROW_PX));
}

/** The largest line that may be on top, with its fraction. */
export function lastTop({ total, viewPx }: LogWindow): number {
  return Math.max(0, total - viewPx / ROW_PX);
}

export function isScaled(window: LogWindow): boolean {
  return window.total * ROW_PX > MOST_PX;
}

/** The line on top when the scroll bar stands there. */
export function topAt(window: LogWindow, scrollPx: number): number {
  const most = heightOf(window) - window.viewPx;
  if (most <= 0) return 0;
  return Math.min(lastTop(window), (scrollPx / most) * lastTop(window));
}

/** Where the scroll bar stands when this line is on top. */
export function scrollAt(window: LogWindow, top: number): number {
  const most = heightOf(window) - window.viewPx;
  const last = lastTop(window);
  return last <= 0 ? 0 : (Math.min(top, last) / last) * most;
}

/** Move by pixels, exactly. */
export function moved(window: LogWindow, top: number, px: number): number {
  return Math.min(lastTop(window), Math.max(0, top + px / ROW_PX));
}

/** So that the line is in the upper third, or where it is if it is in sight already. */
export function topFor(window: LogWindow, top: number, line: number): number {
  const rows = window.viewPx / ROW_PX;
  if (line >= top && line < top + rows - 1) return top;
  return Math.min(lastTop(window), Math.max(0, line - rows / 3));
}

/** First and last page that lines from `top` on need, one page ahead included. */
export function pagesFor(top: number, rows: number, total: number, size: number): number[] {
  if (total === 0) return [];
  const last = Math.max(0, Math.ceil(total / size) - 1);
  const from = Math.min(last, Math.max(0, Math.floor(top / size)));
  const to = Math.min(last, Math.floor((top + rows) / size));
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** The match at or after a line; before it with `step` -1. Wraps around. */
export function nextMatch(places: readonly number[], line: number, step: 1 | -1): number | undefined {
  if (places.length === 0) return undefined;
  if (step === 1) return places.find((place) => place > line) ?? places[0];
  return places.findLast((place) => place < line) ?? places.at(-1);
}

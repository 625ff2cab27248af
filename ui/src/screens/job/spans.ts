/** The arithmetic of the timeline: spans of time, lanes without overlaps, what ran when, and how long nothing did. */

export interface Span {
  from: number;
  to: number;
}

/** Spans that touch or overlap as one. */
export function union(spans: readonly Span[]): Span[] {
  const sorted = spans.filter((span) => span.to > span.from).sort((one, other) => one.from - other.from);
  const merged: Span[] = [];
  for (const span of sorted) {
    const last = merged.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else merged.push({ ...span });
  }
  return merged;
}

export function lengthOf(spans: readonly Span[]): number {
  return union(spans).reduce((sum, span) => sum + span.to - span.from, 0);
}

/** What of `spans` lies outside `others`. */
export function minus(spans: readonly Span[], others: readonly Span[]): Span[] {
  const holes = union(others);
  const left: Span[] = [];
  for (const span of union(spans)) {
    let from = span.from;
    for (const hole of holes) {
      if (hole.to <= from || hole.from >= span.to) continue;
      if (hole.from > from) left.push({ from, to: hole.from });
      from = Math.max(from, hole.to);
    }
    if (from < span.to) left.push({ from, to: span.to });
  }
  return left;
}

/** Into as few lanes as possible, none with overlaps; the lane of each span, by its place in the list. */
export function pack(spans: readonly Span[]): { lanes: number; laneOf: number[] } {
  const order = spans
    .map((_, index) => index)
    .sort((one, other) => (spans[one]?.from ?? 0) - (spans[other]?.from ?? 0));
  const ends: number[] = [];
  const laneOf: number[] = new Array(spans.length).fill(0);
  for (const index of order) {
    const span = spans[index];
    if (!span) continue;
    let lane = ends.findIndex((end) => end <= span.from);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = span.to;
    laneOf[index] = lane;
  }
  return { lanes: Math.max(1, ends.length), laneOf };
}

/** How many spans are open at once, in `steps` equal steps between `from` and `to`. */
export function concurrency(spans: readonly Span[], from: number, to: number, steps: number): number[] {
  const counts = new Array<number>(steps + 1).fill(0);
  const step = (to - from) / steps;
  if (!(step > 0)) return counts.slice(0, steps);
  for (const span of spans) {
    const first = Math.max(0, Math.floor((span.from - from) / step));
    const last = Math.min(steps - 1, Math.ceil((span.to - from) / step) - 1);
    if (last < first || first >= steps) continue;
    counts[first] = (counts[first] ?? 0) + 1;
    counts[last + 1] = (counts[last + 1] ?? 0) - 1;
  }
  let open = 0;
  return counts.slice(0, steps).map((change) => {
    open += change;
    return open;
  });
}

/** How many spans were open on average in each of `steps` equal steps: what ends and what follows it count once. */
export function averages(spans: readonly Span[], from: number, to: number, steps: number): number[] {
  const sums = new Array<number>(steps).fill(0);
  const step = (to - from) / steps;
  if (!(step > 0)) return sums;
  for (const span of spans) {
    const begin = Math.max(0, (span.from - from) / step);
    const end = Math.min(steps, (span.to - from) / step);
    for (let index = Math.floor(begin); index < end; index++) {
      const share = Math.min(end, index + 1) - Math.max(begin, index);
      sums[index] = (sums[index] ?? 0) + share;
    }
  }
  return sums;
}

const NICE = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** A round number of seconds, so that `seconds` has about `most` of them. */
function stepOf(seconds: number, most: number): number {
  if (seconds / most < 1) {
    const power = 10 ** Math.floor(Math.log10(seconds / most));
    return ([1, 2, 5, 10].find((factor) => seconds / (factor * power) <= most) ?? 10) * power;
  }
  return NICE.find((nice) => seconds / nice <= most) ?? 86400 * Math.ceil(seconds / 86400 / most);
}

/** Seconds between `from` and `to` at which an axis has its marks: round numbers, about `most` of them. */
export function ticks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [from];
  const step = stepOf(to - from, most);
  const marks: number[] = [];
  // Counted, not added up: a sum of tenths is not round.
  for (let count = Math.max(0, Math.ceil(from / step - 1e-9)); count * step <= to + step * 1e-9; count++)
    marks.push(count * step);
  return marks;
}

// Nothing is shorter than a bar is wide.
const SMALLEST_PART = 1 / 2_000;

/** Within the whole, not shorter than what can be seen. */
function within({ from, to }: Span, whole: Span): Span {
  const all = whole.to - whole.from;
  const length = Math.min(all, Math.max(to - from, 1, all * SMALLEST_PART));
  const start = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: start, to: start + length };
}

/** The part of the time that the address names, `1500-4200` in milliseconds after the beginning; undefined for all of it. */
export function readWindow(text: string, whole: Span): Span | undefined {
  const parts = /^(\d{1,13})-(\d{1,13})$/.exec(text);
  if (!parts) return undefined;
  const from = whole.from + Number(parts[1]);
  const to = whole.from + Number(parts[2]);
  if (to <= from || from >= whole.to) return undefined;
  return within({ from, to: Math.min(to, whole.to) }, whole);
}

/** As it stands in the address; null if it is all of the time. */
export function windowText(span: Span, whole: Span): string | null {
  const { from, to } = within(span, whole);
  if (to - from >= (whole.to - whole.from) * (1 - SMALLEST_PART)) return null;
  return `${Math.floor(from - whole.from)}-${Math.ceil(to - whole.from)}`;
}

/** Shorter or longer around its middle. */
export function zoomed(span: Span, whole: Span, factor: number): Span {
  const half = ((span.to - span.from) * factor) / 2;
  const middle = (span.from + span.to) / 2;
  return within({ from: middle - half, to: middle + half }, whole);
}

/** As long as before, earlier or later. */
export function shifted(span: Span, whole: Span, by: number): Span {
  return within({ from: span.from + by, to: span.to + by }, whole);
}

/** With another begin or end, which stays on its side. */
export function resized(span: Span, whole: Span, edge: "from" | "to", at: number): Span {
  const least = Math.max(1, (whole.to - whole.from) * SMALLEST_PART);
  return edge === "from"
    ? { from: Math.min(Math.max(whole.from, at), span.to - least), to: span.to }
    : { from: span.from, to: Math.max(Math.min(whole.to, at), span.from + least) };
}

export interface Gaps {
  /** Of the time from start to end, in percent: something ran; all waited for a worker; nothing of both. */
  running: number;
  waiting: number;
  idle: number;
  longest: Span | undefined;
}

/** Where the time of a job went. */
export function gapsOf(whole: Span, running: readonly Span[], waiting: readonly Span[]): Gaps {
  const total = Math.max(1, whole.to - whole.from);
  const notRunning = minus([whole], running);
  const waited = lengthOf(minus(waiting, running));
  const longest = notRunning.reduce<Span | undefined>(
    (best, gap) => (!best || gap.to - gap.from > best.to - best.from ? gap : best),
    undefined,
  );
  const gap = lengthOf(notRunning);
  return {
    running: (100 * (total - gap)) / total,
    waiting: (100 * Math.min(waited, gap)) / total,
    idle: (100 * Math.max(0, gap - waited)) / total,
    longest,
  };
}

/** A square per child of a fan-out: how large, where, and which one is under the pointer. */

export interface Grid {
  columns: number;
  rows: number;
  /** From one square to the next, gap included. */
  pitch: number;
  width: number;
  height: number;
}

/** Squares as large as they can be (4 to 18 px) so that all fit into the height; beyond it the grid grows downwards. */
export function gridFor(count: number, width: number, mostHeight: number): Grid {
  for (let pitch = 18; pitch > 4; pitch--) {
    const grid = gridWith(count, width, pitch);
    if (grid.height <= mostHeight) return grid;
  }
  return gridWith(count, width, 4);
}

function gridWith(count: number, width: number, pitch: number): Grid {
  const columns = Math.max(1, Math.min(count, Math.floor(width / pitch)));
  const rows = Math.ceil(count / columns);
  return { columns, rows, pitch, width: columns * pitch, height: rows * pitch };
}

export function placeOf(grid: Grid, index: number): [x: number, y: number] {
  return [(index % grid.columns) * grid.pitch, Math.floor(index / grid.columns) * grid.pitch];
}

export function indexAt(grid: Grid, x: number, y: number, count: number): number | undefined {
  const column = Math.floor(x / grid.pitch);
  const row = Math.floor(y / grid.pitch);
  if (column < 0 || row < 0 || column >= grid.columns) return undefined;
  const index = row * grid.columns + column;
  return index < count ? index : undefined;
}

/** Those whose letter differs: only they are painted again. */
export function changed(before: string, after: string): number[] {
  const found: number[] = [];
  for (let index = 0; index < after.length; index++) if (before[index] !== after[index]) found.push(index);
  return found;
}

/** `text` with another character at `index`. */
export function withDigit(text: string, index: number, digit: string): string {
  return text.slice(0, index) + digit + text.slice(index + 1);
}

/** The index in the name of a child: `split__17` is 17 of `split`. */
export function childOf(nodeId: string | null | undefined): { parent: string; index: number } | undefined {
  const parts = /^(.+)__(\d+)$/.exec(nodeId ?? "");
  return parts?.[1] && parts[2] ? { parent: parts[1], index: Number(parts[2]) } : undefined;
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Durations in bins of equal width; the last one takes the outliers beyond the 99th percentile. */
export function histogram(values: readonly number[], bins = 24): Bin[] {
  if (values.length === 0) return [];
  const sorted = [...values].sort((one, other) => one - other);
  const least = sorted[0] ?? 0;
  const high = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? least;
  const width = Math.max((high - least) / bins, 1e-9);
  const found = Array.from({ length: bins }, (_, index) => ({
    from: least + index * width,
    to: index === bins - 1 ? Math.max(high, sorted.at(-1) ?? high) : least + (index + 1) * width,
    count: 0,
  }));
  for (const value of sorted) {
    const bin = found[Math.min(bins - 1, Math.floor((value - least) / width))];
    if (bin) bin.count += 1;
  }
  return found;
}

export function percentile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Two texts line by line: what stayed, what went, what came. */

export interface DiffLine {
  kind: "same" | "gone" | "new";
  text: string;
  /** Numbers from 1 in the old and the new text. */
  before?: number;
  after?: number;
}

export function diffLines(before: string, after: string): DiffLine[] {
  const old = before.replace(/\n$/, "").split("\n");
  const now = after.replace(/\n$/, "").split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  )
    end++;
  const middle = longest(old.slice(start, old.length - end), now.slice(start, now.length - end));
  const kinds: DiffLine["kind"][] = [
    ...new Array<"same">(start).fill("same"),
    ...middle,
    ...new Array<"same">(end).fill("same"),
  ];
  let one = 0;
  let other = 0;
  return kinds.map((kind) => {
    if (kind === "gone") return { kind, text: old[one] ?? "", before: ++one };
    if (kind === "new") return { kind, text: now[other] ?? "", after: ++other };
    return { kind, text: old[one] ?? "", before: ++one, after: ++other };
  });
}

/** By the longest common subsequence. Files are a few hundred lines; above four million cells all counts as changed. */
function longest(old: readonly string[], now: readonly string[]): DiffLine["kind"][] {
  if (old.length * now.length > 4_000_000) return [...old.map(() => "gone" as const), ...now.map(() => "new" as const)];
  const width = now.length + 1;
  const table = new Uint32Array((old.length + 1) * width);
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = now.length - 1; column >= 0; column--) {
      const at = row * width + column;
      table[at] =
        old[row] === now[column]
          ? (table[at + width + 1] ?? 0) + 1
          : Math.max(table[at + width] ?? 0, table[at + 1] ?? 0);
    }
  }
  const kinds: DiffLine["kind"][] = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < now.length) {
    const at = row * width + column;
    if (row < old.length && column < now.length && old[row] === now[column]) {
      kinds.push("same");
      row++;
      column++;
    } else if (row < old.length && (column >= now.length || (table[at + width] ?? 0) >= (table[at + 1] ?? 0))) {
      kinds.push("gone");
      row++;
    } else {
      kinds.push("new");
      column++;
    }
  }
  return kinds;
}

/** Without the long stretches that stayed; a number stands for so many lines left out. */
export function folded(lines: readonly DiffLine[], context = 3): (DiffLine | number)[] {
  const near = lines.map(() => false);
  for (const [index, line] of lines.entries()) {
    if (line.kind === "same") continue;
    for (let at = Math.max(0, index - context); at <= Math.min(lines.length - 1, index + context); at++)
      near[at] = true;
  }
  const shown: (DiffLine | number)[] = [];
  for (const [index, line] of lines.entries()) {
    const last = shown.at(-1);
    if (near[index]) shown.push(line);
    else if (typeof last === "number") shown[shown.length - 1] = last + 1;
    else shown.push(1);
  }
  return shown;
}

/** A line of the old text beside one of the new one; a line without a counterpart stands alone. */
export interface DiffPair {
  before?: DiffLine | undefined;
  after?: DiffLine | undefined;
}

/** For two columns: what went is beside what came in its place. */
export function paired(lines: readonly (DiffLine | number)[]): (DiffPair | number)[] {
  const rows: (DiffPair | number)[] = [];
  let gone: DiffLine[] = [];
  let fresh: DiffLine[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(gone.length, fresh.length); index++)
      rows.push({ before: gone[index], after: fresh[index] });
    gone = [];
    fresh = [];
  };
  for (const line of lines) {
    if (typeof line !== "number" && line.kind === "gone") gone.push(line);
    else if (typeof line !== "number" && line.kind === "new") fresh.push(line);
    else {
      flush();
      rows.push(typeof line === "number" ? line : { before: line, after: line });
    }
  }
  flush();
  return rows;
}

/** A line in three parts: as the other one begins, what differs, as the other one ends. */
export function middles(line: string, other: string): [head: string, middle: string, tail: string] {
  const most = Math.min(line.length, other.length);
  let start = 0;
  while (start < most && line[start] === other[start]) start++;
  let end = 0;
  while (end < most - start && line[line.length - 1 - end] === other[other.length - 1 - end]) end++;
  // Lines that share next to nothing are other lines.
  if (start + end < 3) return [line, "", ""];
  return [line.slice(0, start), line.slice(start, line.length - end), line.slice(line.length - end)];
}

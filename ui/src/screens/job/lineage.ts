/** What a graph says about its nodes: who comes before and after, which chain decided how long the job took. */

export interface Edge {
  source: string;
  target: string;
}

export interface Run {
  node_id: string;
  started_at?: string | null;
  ready_at?: string | null;
  completed_at?: string | null;
}

export class Lineage {
  readonly before = new Map<string, string[]>();
  readonly after = new Map<string, string[]>();

  constructor(edges: readonly Edge[]) {
    for (const { source, target } of edges) {
      push(this.before, target, source);
      push(this.after, source, target);
    }
  }

  /** The node, all that it depends on and all that depends on it. */
  of(node: string): Set<string> {
    return new Set([node, ...reach(this.before, node), ...reach(this.after, node)]);
  }

  /** The chain that ended last, back to its beginning: each time the dependency that ended last was waited for. */
  criticalPath(runs: readonly Run[]): string[] {
    const ends = new Map<string, number>();
    for (const run of runs) {
      const end = run.completed_at ?? (run.started_at ? "9999-01-01" : null);
      if (end && (run.started_at ?? run.completed_at)) ends.set(run.node_id, Date.parse(end));
    }
    const latest = (names: Iterable<string>): string | undefined => {
      let best: string | undefined;
      for (const name of names) {
        const end = ends.get(name);
        if (end !== undefined && (best === undefined || end > (ends.get(best) ?? 0))) best = name;
      }
      return best;
    };
    const path: string[] = [];
    const seen = new Set<string>();
    // Of nodes that ended at the same moment the one furthest along is the end.
    let at = latest(
      [...ends.keys()].sort(
        (one, other) => Number(reach(this.after, one).size > 0) - Number(reach(this.after, other).size > 0),
      ),
    );
    while (at !== undefined && !seen.has(at)) {
      seen.add(at);
      path.unshift(at);
      at = latest(this.before.get(at) ?? []);
    }
    return path;
  }
}

function push(map: Map<string, string[]>, key: string, value: string): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function reach(next: ReadonlyMap<string, readonly string[]>, from: string): Set<string> {
  const seen = new Set<string>();
  const open = [...(next.get(from) ?? [])];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (seen.has(at)) continue;
    seen.add(at);
    open.push(...(next.get(at) ?? []));
  }
  return seen;
}

/** The share of the whole run time that each node took, in percent. */
export function timeShares(
  runs: readonly { node_id: string; duration_seconds?: number | null }[],
): Map<string, number> {
  const total = runs.reduce((sum, run) => sum + Math.max(0, run.duration_seconds ?? 0), 0);
  return new Map(
    runs.map((run) => [run.node_id, total > 0 ? (100 * Math.max(0, run.duration_seconds ?? 0)) / total : 0]),
  );
}

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Where an arrow key leads: along edges to what comes before or after, or to the neighbour beside. */
export function walk(
  boxes: readonly Box[],
  lineage: Lineage,
  from: string,
  key: string,
  direction: string,
): string | undefined {
  const own = boxes.find((box) => box.id === from);
  if (!own) return boxes[0]?.id;
  const downwards = direction !== "right";
  const ahead = downwards ? "ArrowDown" : "ArrowRight";
  const back = downwards ? "ArrowUp" : "ArrowLeft";
  const middle = (box: Box) => (downwards ? box.x + box.width / 2 : box.y + box.height / 2);
  const nearest = (names: readonly string[]): string | undefined =>
    boxes
      .filter((box) => names.includes(box.id))
      .sort((one, other) => Math.abs(middle(one) - middle(own)) - Math.abs(middle(other) - middle(own)))[0]?.id;
  if (key === ahead) return nearest(lineage.after.get(from) ?? []);
  if (key === back) return nearest(lineage.before.get(from) ?? []);
  const layer = (box: Box) => (downwards ? box.y + box.height / 2 : box.x + box.width / 2);
  const size = downwards ? own.height : own.width;
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  return boxes
    .filter((box) => Math.abs(layer(box) - layer(own)) < size && (middle(box) - middle(own)) * sign > 0)
    .sort((one, other) => (middle(one) - middle(other)) * sign)[0]?.id;
}

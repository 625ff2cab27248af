/** A graph that the server laid out downwards, drawn to the right. Layers and the order within them stay as they are, so
 * no more edges cross than before; only places are new, in time that grows with the size of the graph. */
import type { Model } from "~/core";

type Structure = Model<"GraphStructure">;
type Place = [x: number, y: number];

const MARGIN = 28;
const LEAST_GAP = 24;
/** Between nodes of a layer: below each there is a line for its time. */
const NODE_GAP = 36;
/** Nodes are flatter than wide, so layers need less room than before; below this, edges would touch nodes. */
const LEAST_FACTOR = 0.45;
const LABEL_HALF = 10;
const LETTER_WIDTH = 6.4;

/** A layer: where it was from top to bottom, and how wide it is now. */
interface Band {
  top: number;
  bottom: number;
  depth: number;
  left: number;
}

function bandsOf({ nodes, edges }: Structure): Band[] {
  const bands: Band[] = nodes.map((node) => ({
    top: node.y,
    bottom: node.y + node.height,
    depth: node.width,
    left: 0,
  }));
  for (const { label, label_at } of edges) {
    if (!label || !label_at) continue;
    const [, y] = label_at as Place;
    bands.push({ top: y - LABEL_HALF, bottom: y + LABEL_HALF, depth: label.length * LETTER_WIDTH + 14, left: 0 });
  }
  bands.sort((one, other) => one.top - other.top);
  const merged: Band[] = [];
  for (const band of bands) {
    const last = merged.at(-1);
    if (last && band.top < last.bottom) {
      last.bottom = Math.max(last.bottom, band.bottom);
      last.depth = Math.max(last.depth, band.depth);
    } else merged.push(band);
  }
  let left = MARGIN;
  for (const [index, band] of merged.entries()) {
    band.left = left;
    left += band.depth + Math.max(LEAST_GAP, (merged[index + 1]?.top ?? band.bottom) - band.bottom);
  }
  return merged;
}

/** From a place on the way down to the one on the way to the right. Between layers it moves evenly. */
function along(bands: readonly Band[], y: number): number {
  const next = bands.findIndex((band) => y <= band.bottom);
  const band = bands[next] ?? bands.at(-1);
  if (!band) return y;
  if (next < 0) return band.left + band.depth + y - band.bottom;
  if (y >= band.top) {
    const share = (y - band.top) / Math.max(1, band.bottom - band.top);
    return band.left + share * band.depth;
  }
  const before = bands[next - 1];
  if (!before) return band.left - (band.top - y);
  const from = before.left + before.depth;
  return from + ((y - before.bottom) / (band.top - before.bottom)) * (band.left - from);
}

/** By how much distances within layers shrink: the two nodes that are closest keep their gap. */
function factorOf(nodes: Structure["nodes"]): number {
  const layers = new Map<number, Structure["nodes"]>();
  for (const node of nodes) layers.set(node.layer, [...(layers.get(node.layer) ?? []), node]);
  let factor = LEAST_FACTOR;
  for (const layer of layers.values()) {
    layer.sort((one, other) => one.x - other.x);
    for (const [index, node] of layer.entries()) {
      const next = layer[index + 1];
      if (!next) break;
      const distance = next.x + next.width / 2 - node.x - node.width / 2;
      factor = Math.max(factor, ((node.height + next.height) / 2 + NODE_GAP) / Math.max(1, distance));
    }
  }
  return Math.min(1, factor);
}

export function toTheRight(structure: Structure): Structure {
  if (structure.direction === "right") return structure;
  const bands = bandsOf(structure);
  const factor = factorOf(structure.nodes);
  const isIn = (y: number) => bands.find((band) => y >= band.top && y <= band.bottom);
  const nodes = structure.nodes.map((node) => {
    const band = isIn(node.y + node.height / 2);
    const left = band ? band.left + (band.depth - node.width) / 2 : along(bands, node.y);
    return { ...node, x: left, y: (node.x + node.width / 2) * factor - node.height / 2 };
  });
  const places = new Map(nodes.map((node) => [node.id, node]));
  const edges = structure.edges.map((edge) => {
    const source = places.get(edge.source);
    const target = places.get(edge.target);
    const points = (edge.points as Place[]).map(([x, y], index): Place => {
      if (index === 0 && source) return [source.x + source.width, x * factor];
      if (index === edge.points.length - 1 && target) return [target.x, x * factor];
      return [along(bands, y), x * factor];
    });
    const at = edge.label_at as Place | null | undefined;
    return { ...edge, points, label_at: at ? ([along(bands, at[1]), at[0] * factor] as Place) : null };
  });
  const tops = [...nodes.map((node) => node.y), ...edges.flatMap((edge) => edge.points.map(([, y]) => y))];
  const shift = MARGIN - Math.min(...tops);
  for (const node of nodes) node.y += shift;
  for (const edge of edges) {
    for (const point of edge.points) point[1] += shift;
    if (edge.label_at) edge.label_at[1] += shift;
  }
  const bottoms = [
    ...nodes.map((node) => node.y + node.height),
    ...edges.flatMap((edge) => edge.points.map(([, y]) => y)),
  ];
  return {
    ...structure,
    direction: "right",
    width: Math.max(...nodes.map((node) => node.x + node.width)) + MARGIN,
    height: Math.max(...bottoms) + MARGIN,
    nodes,
    edges,
  };
}

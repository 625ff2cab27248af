/** The graph of a workflow in a few lines of SVG, drawn from the layout that the server has computed. */
import type { JSX } from "preact";
import type { Model } from "~/core";
import { lookOf } from "./status";

type Structure = Pick<Model<"GraphStructure">, "width" | "height" | "nodes" | "edges">;

function isStructure(value: unknown): value is Structure {
  const layout = value as Partial<Structure> | null;
  return Array.isArray(layout?.nodes) && Array.isArray(layout?.edges) && typeof layout.width === "number";
}

interface MiniGraphProps {
  layout: unknown;
  label: string;
  /** Of a job: the state of each node, as the colour of its box. */
  statusOf?: (node: string) => string | undefined;
}

export function MiniGraph({ layout, label, statusOf }: MiniGraphProps): JSX.Element | null {
  if (!isStructure(layout)) return null;
  const stateOf = ({ id, type }: Structure["nodes"][number]) =>
    statusOf && type !== "start" && type !== "end" ? lookOf(statusOf(id) ?? "pending") : undefined;
  const steps = layout.nodes.filter((node) => node.type !== "start" && node.type !== "end");
  return (
    <figure class="mini-graph">
      <svg
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        aria-hidden="true"
        style={{ maxWidth: `${layout.width * 0.75}px` }}
      >
        {layout.edges.map((edge) => (
          <polyline
            key={`${edge.source} ${edge.target}`}
            points={edge.points.map((point) => point.join(",")).join(" ")}
          />
        ))}
        {layout.nodes.map((node) => (
          <g key={node.id} class={`mini-node mini-${node.type} ${toneClass(stateOf(node)?.tone)}`}>
            <rect x={node.x} y={node.y} width={node.width} height={node.height} rx={8} />
            <text x={node.x + node.width / 2} y={node.y + node.height / 2 + 6}>
              {node.label}
            </text>
          </g>
        ))}
      </svg>
      <ol class="sr-only" aria-label={label}>
        {steps
          .toSorted((one, other) => one.layer - other.layer)
          .map((node) => (
            <li key={node.id}>
              {node.label}, {node.type.replaceAll("_", " ")} {stateOf(node)?.word ?? node.detail}
            </li>
          ))}
      </ol>
    </figure>
  );
}

const toneClass = (tone: string | undefined): string => (tone ? `mini-state tone-${tone}` : "");

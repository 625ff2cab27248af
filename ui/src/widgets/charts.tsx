/** Small charts in SVG, each with its table for screen readers. */
import type { JSX } from "preact";
import type { Tone } from "./status";

export interface Point {
  label: string;
  value: number | null;
  tone?: Tone;
  /** Where a click leads. */
  to?: string;
}

function Twin({ title, points, unit }: { title: string; points: readonly Point[]; unit: string }): JSX.Element {
  return (
    <table class="sr-only">
      <caption>{title}</caption>
      <tbody>
        {points.map((point) => (
          <tr key={point.label}>
            <th scope="row">{point.label}</th>
            <td>{point.value === null ? "no value" : `${point.value} ${unit}`}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface ChartProps {
  title: string;
  points: readonly Point[];
  unit?: string;
  width?: number;
  height?: number;
}

/** A line without axes. */
export function Sparkline({ title, points, unit = "", width = 120, height = 28 }: ChartProps): JSX.Element {
  const most = Math.max(1e-9, ...points.map((point) => point.value ?? 0));
  const x = (index: number) => (points.length < 2 ? width / 2 : 2 + (index * (width - 4)) / (points.length - 1));
  const y = (value: number) => height - 2 - (value / most) * (height - 4);
  let path = "";
  let broken = true;
  for (const [index, point] of points.entries()) {
    if (point.value === null) {
      broken = true;
      continue;
    }
    path += `${broken ? "M" : "L"}${x(index).toFixed(1)} ${y(point.value).toFixed(1)}`;
    broken = false;
  }
  return (
    <span class="chart">
      <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
        <path d={path} />
      </svg>
      <Twin title={title} points={points} unit={unit} />
    </span>
  );
}

/** Upright bars that fill the width. */
export function Bars({ title, points, unit = "", height = 64 }: ChartProps): JSX.Element {
  const most = Math.max(1e-9, ...points.map((point) => point.value ?? 0));
  return (
    <span class="chart">
      <span class="bars" style={{ height: `${height}px` }} aria-hidden="true">
        {points.map((point) => (
          <span
            key={point.label}
            class={`bar tone-${point.tone ?? "active"}`}
            style={{ height: `${point.value ? Math.max(3, (100 * point.value) / most) : 1}%` }}
            title={`${point.label}: ${point.value === null ? "no value" : `${point.value} ${unit}`}`}
          />
        ))}
      </span>
      <Twin title={title} points={points} unit={unit} />
    </span>
  );
}

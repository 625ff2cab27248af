/** Colour scales for one band, told apart with any colour vision, and how a band becomes colours. */
import type { ExpressionValue } from "ol/expr/expression";

export type ScaleName = "viridis" | "magma" | "terrain" | "blues" | "difference" | "grey";

const SCALES: Record<ScaleName, readonly string[]> = {
  viridis: ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"],
  magma: ["#000004", "#51127c", "#b73779", "#fc8961", "#fcfdbf"],
  terrain: ["#1f5f4a", "#6f9a56", "#d9cf8b", "#a9825a", "#f7f3ee"],
  blues: ["#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
  difference: ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"],
  grey: ["#000000", "#ffffff"],
};

export const SCALE_NAMES = Object.keys(SCALES) as ScaleName[];

export function isScale(name: string): name is ScaleName {
  return name in SCALES;
}

/** For the legend: a CSS gradient from left to right. */
export function gradientOf(name: ScaleName): string {
  return `linear-gradient(to right, ${SCALES[name].join(", ")})`;
}

export interface Look {
  /** One band through a scale, or three as red, green and blue; from 1. */
  bands: readonly number[];
  low: number;
  high: number;
  scale: ScaleName;
  /** The band that says where there is data, from 1; none if the file has no such. */
  alpha: number | undefined;
  /** Lifts dark tones of measured reflectance; pictures are shown as they are. */
  gamma: number;
}

function rgb(hex: string): [number, number, number] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as [number, number, number];
}

/** An expression of the tile layer: values of the file go in, a colour comes out. */
export function colourOf({ bands, low, high, scale, alpha, gamma }: Look): ExpressionValue {
  const span = high > low ? high - low : 1;
  const opacity: ExpressionValue = alpha === undefined ? 1 : ["case", [">", ["band", alpha], 0], 1, 0];
  const share = (band: number): ExpressionValue => ["clamp", ["/", ["-", ["band", band], low], span], 0, 1];
  if (bands.length === 3) {
    const [red = 1, green = 1, blue = 1] = bands;
    const tone = (band: number): ExpressionValue => (gamma === 1 ? share(band) : ["^", share(band), gamma]);
    return ["array", tone(red), tone(green), tone(blue), opacity];
  }
  const band = bands[0] ?? 1;
  const stops = SCALES[scale].flatMap((hex, index, all) => [index / (all.length - 1), ["color", ...rgb(hex), 1]]);
  const colour: ExpressionValue = ["interpolate", ["linear"], share(band), ...stops] as ExpressionValue;
  return alpha === undefined ? colour : ["case", [">", ["band", alpha], 0], colour, ["color", 0, 0, 0, 0]];
}

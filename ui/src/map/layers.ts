/** What of a STAC item can be drawn, read with care: items come from handlers that anybody may write. */
import type { Model } from "~/core/api";
import type { Bbox, CogBand, CogSource } from "./types";

type Fields = Record<string, unknown>;

const fields = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});
const text = (value: unknown): string | null => (typeof value === "string" && value ? value : null);
const finite = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

const isBox = (value: unknown): value is Bbox =>
  Array.isArray(value) && value.length === 4 && value.every((one) => finite(one) !== null);

function bandOf(described: unknown, named: unknown, index: number): CogBand {
  const raster = fields(described);
  const figures = fields(raster.statistics);
  const histogram = fields(raster.histogram);
  const buckets = Array.isArray(histogram.buckets) ? histogram.buckets.map((count) => finite(count) ?? 0) : null;
  return {
    name: text(fields(named).name) ?? `b${index + 1}`,
    description: text(fields(named).description),
    unit: text(raster.unit),
    dataType: text(raster.data_type),
    noData: finite(raster.nodata),
    minimum: finite(histogram.min) ?? finite(figures.minimum),
    maximum: finite(histogram.max) ?? finite(figures.maximum),
    histogram: buckets,
  };
}

/** The COGs of an item, by the names of its assets; only files that the API serves. */
export function cogsOf(view: Model<"ItemView">): CogSource[] {
  const item = fields(view.item);
  const properties = fields(item.properties);
  const numbers = Array.isArray(item.bbox) ? item.bbox.map(Number) : [];
  const box = numbers.length === 6 ? [numbers[0], numbers[1], numbers[3], numbers[4]] : numbers;
  if (box.length !== 4 || !box.every(Number.isFinite)) return [];
  const transform = properties["proj:transform"];
  return Object.entries(view.files).flatMap(([name, file]) => {
    const asset = fields(fields(item.assets)[name]);
    const kind = `${text(asset.type) ?? ""} ${file.media_type ?? ""}`;
    if (!/image\/tiff/.test(kind)) return [];
    const described = Array.isArray(asset["raster:bands"]) ? asset["raster:bands"] : [];
    const named = Array.isArray(asset.bands) ? asset.bands : [];
    return [
      {
        url: `/api/v1/files/${file.blob_id}`,
        title: `${view.item_id} · ${text(asset.title) ?? name}`,
        code: text(properties["proj:code"]),
        wkt2: text(properties["proj:wkt2"]),
        bands: described.map((band, index) => bandOf(band, named[index], index)),
        bbox: box as unknown as Bbox,
        nativeBbox: isBox(properties["proj:bbox"]) ? properties["proj:bbox"] : null,
        transform: Array.isArray(transform) && transform.every((one) => finite(one) !== null) ? transform : null,
      },
    ];
  });
}

/** The values between which most pixels of a band lie: from 2 % to 98 % of its histogram. */
export function usualRange(band: CogBand): [number, number] | undefined {
  const { minimum, maximum, histogram } = band;
  if (minimum === null || maximum === null || maximum <= minimum) return undefined;
  const total = histogram?.reduce((sum, count) => sum + count, 0) ?? 0;
  if (!histogram || total <= 0) return [minimum, maximum];
  const step = (maximum - minimum) / histogram.length;
  const at = (share: number): number => {
    let before = 0;
    for (const [index, count] of histogram.entries()) {
      if (before + count >= share * total)
        return minimum + step * (index + (share * total - before) / Math.max(1, count));
      before += count;
    }
    return maximum;
  };
  const [low, high] = [at(0.02), at(0.98)];
  return high > low ? [low, high] : [minimum, maximum];
}

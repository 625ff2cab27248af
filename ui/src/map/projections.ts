/** Coordinate systems that the map library does not know, from the definitions that come with the data. */
import { get as getProjection, transform } from "ol/proj";
import { register } from "ol/proj/proj4";
import proj4 from "proj4";

const PLAIN = new Set(["EPSG:4326", "EPSG:3857", "OGC:CRS84"]);
let unnamed = 0;
const names = new Map<string, string>();

/** Make a coordinate system usable, and say under which name; undefined if it is not understood. */
export function readCrs(code: string | null, wkt: string | null): string | undefined {
  if (code !== null && (PLAIN.has(code) || getProjection(code) !== null))
    return code === "OGC:CRS84" ? "EPSG:4326" : code;
  if (!wkt) return utm(code);
  const known = names.get(wkt);
  if (known) return known;
  const name = code ?? `RMHDAG:${++unnamed}`;
  try {
    proj4.defs(name, wkt);
    register(proj4);
    const [x, y] = transform([0, 0], name, "EPSG:4326");
    if (getProjection(name) === null || x === undefined || y === undefined) return utm(code);
  } catch {
    return utm(code);
  }
  names.set(wkt, name);
  return name;
}

/** Items that were made before definitions came with them: the zones of UTM follow from their numbers. */
function utm(code: string | null): string | undefined {
  const match = /^EPSG:32([67])(\d\d)$/.exec(code ?? "");
  if (!match || code === null || Number(match[2]) < 1 || Number(match[2]) > 60) return undefined;
  proj4.defs(
    code,
    `+proj=utm +zone=${Number(match[2])} ${match[1] === "7" ? "+south " : ""}+datum=WGS84 +units=m +no_defs`,
  );
  register(proj4);
  return code;
}

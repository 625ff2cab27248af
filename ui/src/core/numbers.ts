/** Numbers in words. */
const grouped = new Intl.NumberFormat("en");

/** `12,345`. */
export function countText(count: number): string {
  return grouped.format(count);
}

/** `1 job`, `12 jobs`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${countText(count)} ${count === 1 ? noun : plural}`;
}

/** `1.4 MB`, in powers of 1,000 as disks are sold. */
export function bytesText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  let size = bytes;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (size < 1000 || unit === "TB")
      return `${unit === "B" || size >= 100 ? Math.round(size) : size.toFixed(1)} ${unit}`;
    size /= 1000;
  }
  return "";
}

/** `98.2 %`. */
export function percentText(percent: number | null | undefined): string {
  return percent === null || percent === undefined ? "–" : `${percent.toFixed(percent === 100 ? 0 : 1)} %`;
}

/** The end of an id tells things apart; its beginning is the time. */
export function shortId(id: string): string {
  return id.length > 12 ? id.slice(-8) : id;
}

/** Pages of log lines, read when they come in sight; a few dozen are kept. */
import { type Signal, signal } from "@preact/signals";
import { type ApiError, api, asApiError, type Model, ok } from "~/core";

export type Level = Model<"LogLevel">;

export interface Line {
  /** Its place in this view, and its number among all lines. */
  place: number;
  number: number;
  level: string;
  text: string;
  node: string;
  at: string;
  /** The rest was cut behind it. */
  isCut: boolean;
}

export interface LogView {
  jobId: string;
  node: string;
  levels: readonly Level[];
}

export const PAGE = 500;
const KEPT = 40;

export class LogStore {
  readonly total: Signal<number | undefined> = signal(undefined);
  readonly error: Signal<ApiError | undefined> = signal(undefined);
  /** Counts pages that arrived: drawing follows it. */
  readonly arrived: Signal<number> = signal(0);
  private readonly pages = new Map<number, Line[]>();
  private readonly asked = new Set<number>();

  constructor(readonly view: LogView) {}

  line(place: number): Line | undefined {
    const page = this.pages.get(Math.floor(place / PAGE));
    return page?.[place % PAGE];
  }

  /** The end first: that is what people look for. */
  async readEnd(): Promise<void> {
    await this.fetch(-PAGE, undefined);
  }

  want(pages: readonly number[]): void {
    for (const page of pages) {
      if (this.pages.has(page) || this.asked.has(page)) continue;
      void this.fetch(page * PAGE, page);
    }
  }

  /** In a job that runs the end grows; its last page is read again. */
  async follow(): Promise<void> {
    const last = Math.floor(Math.max(0, (this.total.peek() ?? 0) - 1) / PAGE);
    await this.fetch(last * PAGE, last);
  }

  /** Lines of a range, read if need be; for copying. */
  async range(from: number, to: number): Promise<string[]> {
    const texts: string[] = [];
    for (let place = from; place <= to; place++) {
      if (!this.line(place)) await this.fetch(Math.floor(place / PAGE) * PAGE, Math.floor(place / PAGE));
      texts.push(this.line(place)?.text ?? "");
    }
    return texts;
  }

  private async fetch(first: number, page: number | undefined): Promise<void> {
    if (page !== undefined) this.asked.add(page);
    const { jobId, node, levels } = this.view;
    try {
      const query = {
        first,
        limit: PAGE,
        ...(node ? { node_id: node } : {}),
        ...(levels.length ? { level: [...levels] } : {}),
      };
      const answer = await ok(
        api.GET("/api/v1/jobs/{job_id}/logs/lines", { params: { path: { job_id: jobId }, query } }),
      );
      this.keep(answer);
      this.error.value = undefined;
    } catch (error) {
      this.error.value = asApiError(error);
    } finally {
      if (page !== undefined) this.asked.delete(page);
    }
  }

  private keep(answer: Model<"LogLines">): void {
    let place = answer.first;
    const fresh = new Map<number, Line[]>();
    for (const piece of answer.pieces) {
      for (const [index, text] of piece.lines.entries()) {
        const page = Math.floor(place / PAGE);
        const lines = fresh.get(page) ?? [...(this.pages.get(page) ?? [])];
        lines[place % PAGE] = {
          place,
          number: piece.numbers[index] ?? place,
          level: piece.levels[index] ?? "i",
          text,
          node: piece.node_id,
          at: piece.created_at,
          isCut: piece.truncated && index === piece.lines.length - 1,
        };
        fresh.set(page, lines);
        place++;
      }
    }
    for (const [page, lines] of fresh) {
      this.pages.delete(page);
      // A page that is not whole is asked for again when it comes in sight.
      const end = Math.min(answer.total - page * PAGE, PAGE);
      if (lines.length >= end && !lines.includes(undefined as unknown as Line) && Object.keys(lines).length === end)
        this.pages.set(page, lines);
      else this.partial(page, lines);
    }
    while (this.pages.size > KEPT) this.pages.delete(this.pages.keys().next().value as number);
    this.total.value = answer.total;
    this.arrived.value += 1;
  }

  /** Shown, and completed by another request. */
  private partial(page: number, lines: Line[]): void {
    this.pages.set(page, lines);
    const missing = lines.indexOf(undefined as unknown as Line);
    if (missing >= 0 || lines.length < PAGE) {
      window.setTimeout(() => {
        if (
          this.pages.get(page) === lines &&
          Object.keys(lines).length < Math.min(PAGE, (this.total.peek() ?? 0) - page * PAGE)
        ) {
          void this.fetch(page * PAGE + Math.max(0, missing), page);
        }
      }, 0);
    }
  }
}

/** The parts of the dashboard come in one answer at first; each of them is then refreshed by a call of its own. */
import { api, type Model, ok } from "~/core";

type Dashboard = Model<"Dashboard">;

export class FirstRead {
  private readonly answer: Promise<Dashboard | undefined>;
  private readonly taken = new Set<keyof Dashboard>();

  constructor(hours: number, minutes: number) {
    const query = { hours, bucket_minutes: minutes };
    // If it fails, the calls of the parts show what is wrong.
    this.answer = ok(api.GET("/api/v1/dashboard", { params: { query } })).catch(() => undefined);
  }

  /** The part of the first answer, once; afterwards what `read` gives. */
  async part<Name extends keyof Dashboard>(name: Name, read: () => Promise<Dashboard[Name]>): Promise<Dashboard[Name]> {
    if (this.taken.has(name)) return read();
    this.taken.add(name);
    return (await this.answer)?.[name] ?? read();
  }
}

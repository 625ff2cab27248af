/** Is the platform well? The verdict first, then every check with its value, its limit, its meaning and the remedy. */
import type { JSX } from "preact";
import { ApiError, api, counted, type Model, Resolved, useQuery, useResource, useTitle } from "~/core";
import { Chip, Icon, Page, Section, Status, Time } from "~/widgets";
import { SelfTest } from "./self-test";

type Health = Model<"Health">;
type Check = Model<"HealthCheck">;

/** An unhealthy platform answers 503 with the same report. */
export async function readHealth(signal: AbortSignal): Promise<Health> {
  const { data, error, response } = await api.GET("/api/v1/health", { signal });
  if (data) return data;
  const report = error as Partial<Health> & Partial<Model<"ProblemBody">>;
  if (response.status === 503 && report?.components) return report as Health;
  throw new ApiError(response.status, report ?? {});
}

const PARTS: Record<string, string> = {
  orchestrators: "Orchestrators",
  database: "Database",
  messaging: "Queues and messages",
  workers: "Workers",
  system: "Machine and namespace",
};
const RANK: Record<string, number> = { UNHEALTHY: 0, DEGRADED: 1, HEALTHY: 2 };

function verdictOf(health: Health): [tone: string, title: string, text: string] {
  const checks = Object.values(health.components).flatMap((part) => part.checks);
  const bad = checks.filter((check) => check.status === "UNHEALTHY").length;
  const poor = checks.filter((check) => check.status === "DEGRADED").length;
  if (bad)
    return [
      "tone-bad",
      "The platform is unhealthy: work stands still or is at risk.",
      `${counted(bad, "check")} failed${poor ? `, ${counted(poor, "check needs", "checks need")} attention` : ""}. Begin with the first one below.`,
    ];
  if (poor)
    return [
      "tone-warning",
      "The platform works, but something needs attention.",
      `${counted(poor, "check is", "checks are")} beyond the limit; each says below what to do.`,
    ];
  return ["tone-good", "The platform is healthy.", `All ${checks.length} checks are within their limits.`];
}

export default function HealthScreen(): JSX.Element {
  useTitle("Health");
  const [shown, show] = useQuery("show", "all");
  const health = useResource(readHealth, [], { everySeconds: 5 });
  const readAt = health.readAt.value;
  return (
    <Page
      title="Health"
      lead={
        readAt ? (
          <>
            Checked <Time at={new Date(readAt).toISOString()} />, every 5 seconds while this page is open.
          </>
        ) : undefined
      }
      actions={
        <div class="chips">
          <Chip chosen={shown === "all"} onToggle={() => show(null)}>
            All checks
          </Chip>
          <Chip chosen={shown === "problems"} onToggle={() => show("problems")} tone="warning">
            Only problems
          </Chip>
        </div>
      }
    >
      <Resolved resource={health} what="the health">
        {(data) => <Report health={data} onlyProblems={shown === "problems"} />}
      </Resolved>
    </Page>
  );
}

function Report({ health, onlyProblems }: { health: Health; onlyProblems: boolean }): JSX.Element {
  const [tone, title, text] = verdictOf(health);
  const parts = Object.entries(health.components)
    .map(([name, part]) => ({
      name,
      status: part.status,
      checks: [...part.checks]
        .filter((check) => !onlyProblems || check.status !== "HEALTHY")
        .sort((a, b) => (RANK[a.status] ?? 0) - (RANK[b.status] ?? 0)),
    }))
    .filter((part) => part.checks.length > 0)
    .sort((a, b) => (RANK[a.status] ?? 0) - (RANK[b.status] ?? 0));
  return (
    <>
      <div class={`health-verdict ${tone}`} role="status" data-status={health.status}>
        <Icon
          name={health.status === "HEALTHY" ? "check" : health.status === "DEGRADED" ? "warning" : "cross"}
          size={28}
        />
        <div>
          <p class="health-title">{title}</p>
          <p>{text}</p>
        </div>
      </div>
      <SelfTest />
      {parts.length === 0 ? <p class="soft">No check is beyond its limit.</p> : null}
      {parts.map((part) => (
        <Section key={part.name} title={PARTS[part.name] ?? part.name} aside={<Status status={part.status} />} flush>
          <ul>
            {part.checks.map((check) => (
              <CheckLine key={check.name} check={check} />
            ))}
          </ul>
        </Section>
      ))}
      <p class="faint small">
        The same report for programs: <code>GET /api/v1/health</code> (503 if unhealthy), <code>/livez</code>,{" "}
        <code>/readyz</code>, <code>/metrics</code>. On the machine: <code>rmhdag doctor</code>.
      </p>
    </>
  );
}

/** What stands between backticks is a command or a name. */
function withCode(text: string): (JSX.Element | string)[] {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

function CheckLine({ check }: { check: Check }): JSX.Element {
  return (
    <li class="health-check" data-check={check.name}>
      <Status status={check.status} look="icon" />
      <div class="health-words">
        <p>
          <strong class="health-name">{check.name}</strong> <span class="soft">{check.meaning}</span>
        </p>
        {check.remedy ? (
          <p class="health-remedy">
            <Icon name="right" size={14} /> <span>{withCode(check.remedy)}</span>
          </p>
        ) : null}
      </div>
      <dl class="health-figures">
        <div>
          <dt>now</dt>
          <dd>{check.value}</dd>
        </div>
        <div>
          <dt>limit</dt>
          <dd>{check.threshold}</dd>
        </div>
      </dl>
    </li>
  );
}

/** Which version this is, of which parts, and how it is tested. */
import type { JSX } from "preact";
import { api, countText, durationText, Link, type Model, ok, Resolved, useResource, useTitle } from "~/core";
import { Code, type Column, Empty, Facts, Page, Section, Status, Table } from "~/widgets";
import { readHealth } from "../health/health";

export default function About(): JSX.Element {
  useTitle("About");
  const facts = useResource(async (signal) => {
    const [health, about] = await Promise.all([readHealth(signal), ok(api.GET("/api/v1/about", { signal }))]);
    return { health, about };
  }, []);
  return (
    <Page title="About" lead="rmhdag runs workflows on geospatial data, on PostgreSQL alone.">
      <Section title="This installation">
        <Resolved resource={facts} what="the facts">
          {({ health, about }) => {
            const schema = health.components.system?.checks.find((check) => check.name === "schema");
            return (
              <Facts
                items={[
                  ["Version of the API", health.version],
                  ["Versions of workers and orchestrators", about.process_versions.join(", ") || "none is alive"],
                  [
                    "Schema of the database",
                    schema ? `${schema.value} (this program needs ${schema.threshold})` : null,
                  ],
                  [
                    "Health",
                    <Link key="h" to="/health">
                      <Status status={health.status} />
                    </Link>,
                  ],
                  ["Address", window.location.origin],
                ]}
              />
            );
          }}
        </Resolved>
      </Section>
      <Section title="Does it lose work?">
        <div class="stack">
          <p>
            The chaos campaign kills, freezes and cuts off real processes while jobs run, and an independent checker
            looks for lost, doubled, stuck and late work. These are the last campaigns of this program. They ran where
            it was developed, not on this platform.
          </p>
          <Resolved resource={facts} what="the campaigns">
            {({ about }) => <Campaigns results={about.chaos} />}
          </Resolved>
          <p>Run one on your machine; it starts a database of its own and touches nothing else:</p>
          <Code text="rmhdag chaos --minutes 10 --seed 1" label="Command" />
          <p class="soft">
            What this installation has recovered from is under <Link to="/nodes">Workers and orchestrators</Link>,
            “Taken over”.
          </p>
        </div>
      </Section>
      <Section title="Use it from programs">
        <div class="stack">
          <p>
            The <a href="/openapi.json">OpenAPI document</a> describes every route. With a key from{" "}
            <Link to="/settings?tab=keys">Settings</Link>:
          </p>
          <Code
            text={`curl -H "Authorization: Bearer $RMHDAG_KEY" ${window.location.origin}/api/v1/jobs`}
            label="With curl"
          />
        </div>
      </Section>
    </Page>
  );
}

type Campaign = Model<"Campaign">;

/** Each column with its meaning, which is written below the table. */
const COLUMNS: readonly (Column<Campaign> & { title: string; means: string })[] = [
  {
    id: "command",
    title: "Campaign",
    means: "The command that repeats it. A seed gives the same faults, not the same moments.",
    cell: (one) => (
      <span title={`${one.command}, version ${one.version}, ${one.date}`}>
        <code>{one.command.replace("rmhdag chaos ", "")}</code>
      </span>
    ),
  },
  { id: "date", title: "Date", means: "When it ran.", width: "6.5rem", hide: "large", cell: (one) => one.date },
  number("jobs", "Jobs", "Submitted meanwhile.", "medium"),
  number("tasks", "Tasks", "Run by their workers.", "large"),
  number("kills", "Kills", "Orchestrators and workers that were killed without warning.", "narrow"),
  number("freezes", "Freezes", "Processes that stood still for a while and went on.", "medium"),
  number(
    "freezes_past_lease",
    "Past lease",
    "Of these, those that woke when others had taken over their work.",
    "large",
  ),
  number("database_restarts", "Restarts", "How often the database was restarted.", "medium"),
  number("other_faults", "Others", "Connections cut, half-open, slow or ended, and departures in good order.", "large"),
  number("lost", "Lost", "Work that vanished, or was called completed without a result."),
  number("doubled", "Doubled", "Work that was completed twice.", "narrow"),
  number("stuck", "Stuck", "Jobs that did not end within two minutes after the last fault.", "narrow"),
  number("late", "Late", "Everything else that must hold and did not, above all what came too late.", "narrow"),
];

type Count = { [name in keyof Campaign]: Campaign[name] extends number ? name : never }[keyof Campaign];

function number(id: Count, title: string, means: string, hide?: "narrow" | "medium" | "large") {
  const cell = (one: Campaign) => countText(one[id]);
  return { id, title, means, cell, width: "5rem", align: "right" as const, ...(hide ? { hide } : {}) };
}

function Campaigns({ results }: { results: Model<"ChaosResults"> }): JSX.Element {
  if (!results.campaigns.length) return <Empty title="No campaign is recorded" />;
  return (
    <>
      <Table label="Chaos campaigns" columns={COLUMNS} rows={results.campaigns} rowKey={(one) => one.command} />
      <details>
        <summary>What the columns mean</summary>
        <Facts items={COLUMNS.map((column) => [column.title, column.means])} />
      </details>
      {results.deaths.length ? (
        <>
          <p>How long it takes to notice one death or departure, with nothing else wrong at the time:</p>
          <Facts
            items={results.deaths.map((one) => [
              one.what,
              `p50 ${durationText(one.p50_seconds)}, p99 ${durationText(one.p99_seconds)}, at most ${durationText(one.max_seconds)} ` +
                `(${one.samples} times; wanted ${one.limit} s)`,
            ])}
          />
        </>
      ) : null}
    </>
  );
}

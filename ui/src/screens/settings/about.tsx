/** Which version this is, of which parts, and how it is tested. */
import type { JSX } from "preact";
import { api, Link, ok, Resolved, useResource, useTitle } from "~/core";
import { Code, Facts, Page, Section, Status } from "~/widgets";
import { readHealth } from "../health/health";

export default function About(): JSX.Element {
  useTitle("About");
  const facts = useResource(async (signal) => {
    const [health, workers, orchestrators] = await Promise.all([
      readHealth(signal),
      ok(api.GET("/api/v1/workers", { signal })),
      ok(api.GET("/api/v1/orchestrators", { signal })),
    ]);
    const alive = [...workers.workers, ...orchestrators.orchestrators].filter((one) => one.alive);
    return { health, versions: [...new Set(alive.map((one) => one.version))].sort() };
  }, []);
  return (
    <Page title="About" lead="rmhdag runs workflows on geospatial data, on PostgreSQL alone.">
      <Section title="This installation">
        <Resolved resource={facts} what="the facts">
          {({ health, versions }) => {
            const schema = health.components.system?.checks.find((check) => check.name === "schema");
            return (
              <Facts
                items={[
                  ["Version of the API", health.version],
                  ["Versions of workers and orchestrators", versions.join(", ") || "none is alive"],
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
            looks for lost, duplicated and stuck work. This platform does not keep the results of campaigns, so none are
            shown here. Run one on your machine; it starts a database of its own and touches nothing else:
          </p>
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

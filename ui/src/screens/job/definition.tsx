/** The definition that the job runs, and what has changed in the workflow since. */
import type { JSX } from "preact";
import { api, ok, Resolved, useResource } from "~/core";
import { Code, Tabs } from "~/widgets";
import { Diff } from "./diff-view";
import type { JobStore } from "./store";
import { tidy, toYaml } from "./yaml";

export function Definition({ store }: { store: JobStore }): JSX.Element {
  const definition = useResource(
    (signal) => ok(api.GET("/api/v1/jobs/{job_id}/definition", { params: { path: { job_id: store.jobId } }, signal })),
    [store.jobId],
  );
  return (
    <Resolved resource={definition} what="the definition">
      {(pinned) => {
        const order = store.order.peek();
        const text = toYaml(tidy(pinned.definition, order));
        if (!pinned.newest_definition) {
          return (
            <section class="card definition" aria-label="Definition">
              <p class="pane-tools small soft">
                Version {pinned.version}, {pinned.newest_version === null ? "no longer registered" : "the newest"} · as
                the engine runs it
              </p>
              <Code text={text} language="yaml" numbers label="Definition" />
            </section>
          );
        }
        return (
          <Tabs
            label="Definition"
            param="view"
            tabs={[
              {
                id: "pinned",
                label: `This job: version ${pinned.version}`,
                panel: () => (
                  <section class="card definition" aria-label="Definition">
                    <Code text={text} language="yaml" numbers label="Definition" />
                  </section>
                ),
              },
              {
                id: "diff",
                label: `Changes up to version ${pinned.newest_version}`,
                panel: () => (
                  <Diff
                    before={text}
                    after={toYaml(tidy(pinned.newest_definition, order))}
                    titles={[`Version ${pinned.version}, of this job`, `Version ${pinned.newest_version}, the newest`]}
                  />
                ),
              },
            ]}
          />
        );
      }}
    </Resolved>
  );
}

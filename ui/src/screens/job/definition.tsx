/** The definition that the job runs, and what has changed in the workflow since. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { api, counted, ok, Resolved, useQuery, useResource } from "~/core";
import { Code, CopyButton, Empty, Tabs } from "~/widgets";
import { diffLines, folded } from "./diff";
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
                panel: () => <Diff before={text} after={toYaml(tidy(pinned.newest_definition, order))} />,
              },
            ]}
          />
        );
      }}
    </Resolved>
  );
}

export function Diff({ before, after }: { before: string; after: string }): JSX.Element {
  const [all, setAll] = useQuery("whole", "");
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const shown = all ? lines : folded(lines);
  const gone = lines.filter((line) => line.kind === "gone").length;
  const fresh = lines.filter((line) => line.kind === "new").length;
  if (gone + fresh === 0)
    return (
      <Empty title="They mean the same" icon="check">
        No line of the definition differs.
      </Empty>
    );
  return (
    <section class="card definition" aria-label="Changes">
      <p class="pane-tools small soft">
        {counted(fresh, "line")} added, {counted(gone, "line")} removed{" "}
        <button type="button" class="link" onClick={() => setAll(all ? null : "1")}>
          {all ? "Only the changes" : "All lines"}
        </button>
        <CopyButton text={after} label="Copy the new one" />
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
      <div class="diff" tabIndex={0} role="group" aria-label="Changed lines">
        {shown.map((line, index) =>
          typeof line === "number" ? (
            <div key={index} class="diff-fold">
              {counted(line, "equal line")}
            </div>
          ) : (
            <div key={index} class={`diff-line diff-${line.kind}`}>
              <span class="diff-number">{line.before ?? ""}</span>
              <span class="diff-number">{line.after ?? ""}</span>
              <span class="diff-sign">{line.kind === "gone" ? "−" : line.kind === "new" ? "+" : " "}</span>
              <code>{line.text}</code>
            </div>
          ),
        )}
      </div>
    </section>
  );
}

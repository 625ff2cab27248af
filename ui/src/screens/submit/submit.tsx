/** Start a job: choose a workflow, fill in its inputs, see what would happen, and submit. */
import type { JSX } from "preact";
import { api, Link, ok, Resolved, type ScreenProps, to, useQuery, useResource, useTitle } from "~/core";
import { Empty, Page, Section } from "~/widgets";
import { SubmitForm } from "./form";

export default function Submit({ params }: ScreenProps): JSX.Element {
  return params.workflow_id ? <SubmitOne key={params.workflow_id} workflow_id={params.workflow_id} /> : <Choose />;
}

function Choose(): JSX.Element {
  useTitle("Submit");
  const [text, setText] = useQuery("q");
  const workflows = useResource(
    async (signal) => (await ok(api.GET("/api/v1/workflows", { params: { query: { limit: 500 } }, signal }))).workflows,
    [],
  );
  return (
    <Page title="Submit" lead="Which workflow?">
      <Resolved
        resource={workflows}
        what="the workflows"
        isEmpty={(list) => list.length === 0}
        empty={
          <Empty title="No workflows yet" icon="workflow">
            Register one: <code>rmhdag workflows register FILE.yaml</code>
          </Empty>
        }
      >
        {(list) => {
          const shown = list.filter(
            (one) =>
              !one.retired_at &&
              `${one.workflow_id} ${one.name} ${one.description ?? ""}`.toLowerCase().includes(text.toLowerCase()),
          );
          return (
            <>
              <input
                type="search"
                aria-label="Find a workflow"
                placeholder="Find a workflow"
                value={text}
                onInput={(event) => setText(event.currentTarget.value || null)}
              />
              {shown.length === 0 ? <Empty title={`No workflow matches “${text}”`} /> : null}
              <ul class="workflow-cards">
                {shown.map((one) => (
                  <li key={one.workflow_id}>
                    <Link class="workflow-card" to={to`/submit/${one.workflow_id}`}>
                      <strong>{one.name}</strong>
                      <code>{one.workflow_id}</code>
                      <span class="faint">{one.description ?? ""}</span>
                    </Link>
                  </li>
                ))}
              </ul>
            </>
          );
        }}
      </Resolved>
    </Page>
  );
}

function SubmitOne({ workflow_id }: { workflow_id: string }): JSX.Element {
  const workflow = useResource(
    (signal) => ok(api.GET("/api/v1/workflows/{workflow_id}", { params: { path: { workflow_id } }, signal })),
    [workflow_id],
  );
  const detail = workflow.data.value;
  useTitle(`Submit ${detail?.name ?? workflow_id}`);
  return (
    <Page
      title={detail?.name ?? workflow_id}
      crumbs={[{ label: "Submit", to: "/submit" }]}
      lead={detail?.description ?? undefined}
      wide
    >
      <Resolved resource={workflow} what="the workflow">
        {(view) =>
          view.retired_at ? (
            <Section title="Retired">
              <Empty title="This workflow accepts no new jobs" icon="stop">
                It was retired by {view.retired_by ?? "somebody"}. <code>rmhdag workflows restore {workflow_id}</code>{" "}
                brings it back.
              </Empty>
            </Section>
          ) : (
            <SubmitForm workflow={view} />
          )
        }
      </Resolved>
    </Page>
  );
}

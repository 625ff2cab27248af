/** All workflows with how their last runs went. */
import type { JSX } from "preact";
import {
  api,
  durationText,
  Link,
  type Model,
  may,
  ok,
  percentText,
  Resolved,
  to,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { ButtonLink, Empty, FilterBar, Page, Section, Table, Time } from "~/widgets";
import { RunBars } from "./runs";

type Workflow = Model<"WorkflowSummary">;

const DAYS = 30;

export default function Workflows(): JSX.Element {
  useTitle("Workflows");
  const [text, setText] = useQuery("q", "");
  const list = useResource(
    async (signal) => {
      const query = { limit: 100, ...(text ? { text } : {}) };
      const page = await ok(api.GET("/api/v1/workflows", { params: { query }, signal }));
      const names = page.workflows.map((workflow) => workflow.workflow_id);
      const [runs, metrics] = await Promise.all([
        names.length
          ? ok(api.GET("/api/v1/metrics/runs", { params: { query: { workflow_id: names, last: 20 } }, signal }))
          : ({ runs: {} } as Model<"RecentRuns">),
        ok(api.GET("/api/v1/metrics/workflows", { params: { query: { days: DAYS } }, signal })),
      ]);
      return {
        workflows: page.workflows,
        runs: runs.runs,
        metrics: new Map(metrics.workflows.map((one) => [one.workflow_id, one])),
      };
    },
    [text],
    { live: ["jobs"], clears: false },
  );
  return (
    <Page title="Workflows" lead={`Success and durations of the last ${DAYS} days.`}>
      <FilterBar
        text={text}
        onChange={(next) => setText(next || null)}
        placeholder="Part of an id or a name"
        label="Filter workflows"
      />
      <Section title="Workflows" flush>
        <Resolved
          resource={list}
          what="the workflows"
          isEmpty={(data) => data.workflows.length === 0}
          empty={
            text ? (
              <Empty title={`No workflow contains “${text}”`} icon="search">
                <Link to="/workflows">Show all workflows</Link>
              </Empty>
            ) : (
              <Empty title="No workflow is registered yet" icon="workflow">
                Register a file with <code>rmhdag workflows register FILE</code>, or start <code>rmhdag up</code>, which
                registers those that come with it.
              </Empty>
            )
          }
        >
          {(data) => (
            <Table<Workflow>
              label="Workflows"
              rows={data.workflows}
              rowKey={(workflow) => workflow.workflow_id}
              rowTo={(workflow) => to`/workflows/${workflow.workflow_id}`}
              columns={[
                {
                  id: "name",
                  title: "Workflow",
                  cell: (workflow) => (
                    <>
                      <Link to={to`/workflows/${workflow.workflow_id}`}>{workflow.workflow_id}</Link>{" "}
                      <span class="faint">{workflow.name}</span>
                    </>
                  ),
                },
                {
                  id: "runs",
                  title: "Last 20 runs",
                  width: "13rem",
                  hide: "narrow",
                  cell: (workflow) => (
                    <RunBars runs={data.runs[workflow.workflow_id] ?? []} workflow={workflow.workflow_id} />
                  ),
                },
                {
                  id: "rate",
                  title: "Success",
                  width: "6rem",
                  align: "right",
                  cell: (workflow) => percentText(data.metrics.get(workflow.workflow_id)?.success_rate),
                },
                {
                  id: "p95",
                  title: "p95",
                  width: "6rem",
                  align: "right",
                  hide: "narrow",
                  cell: (workflow) => durationText(data.metrics.get(workflow.workflow_id)?.p95_duration_seconds),
                },
                {
                  id: "version",
                  title: "Version",
                  width: "5rem",
                  align: "right",
                  hide: "medium",
                  cell: (workflow) => workflow.version,
                },
                {
                  id: "registered",
                  title: "Registered",
                  width: "8rem",
                  hide: "medium",
                  cell: (workflow) => <Time at={workflow.registered_at} />,
                },
                {
                  id: "by",
                  title: "Registered by",
                  width: "8rem",
                  hide: "medium",
                  cell: (workflow) => (
                    <span class="cut" title={`registered version ${workflow.version}: ${workflow.registered_by}`}>
                      {workflow.registered_by}
                    </span>
                  ),
                },
                ...(may("submit")
                  ? [
                      {
                        id: "submit",
                        title: "",
                        width: "6.5rem",
                        align: "right" as const,
                        hide: "narrow" as const,
                        cell: (workflow: Workflow) => (
                          <ButtonLink to={to`/submit/${workflow.workflow_id}`} look="quiet">
                            Submit
                          </ButtonLink>
                        ),
                      },
                    ]
                  : []),
              ]}
            />
          )}
        </Resolved>
      </Section>
    </Page>
  );
}

/** One workflow: its graph, inputs, text, versions and how it has fared. */
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
  type ScreenProps,
  to,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { Bars, ButtonLink, Code, Empty, lookOf, Page, Section, Split, Stat, Table, Tabs, Time } from "~/widgets";
import { Diff } from "../job/diff-view";
import { Graph, type Structure } from "../job/graph";
import { tidy, toYaml } from "../job/yaml";
import { RunBars } from "./runs";

type Detail = Model<"WorkflowDetail">;

export default function Workflow({ params }: ScreenProps): JSX.Element {
  const name = params.workflow_id ?? "";
  useTitle(name);
  const [version] = useQuery("version", "");
  const path = { workflow_id: name };
  const detail = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/workflows/{workflow_id}", {
          params: { path, query: version ? { version: Number(version) } : {} },
          signal,
        }),
      ),
    [name, version],
  );
  return (
    <Page
      wide
      title={name}
      crumbs={[{ label: "Workflows", to: "/workflows" }]}
      lead={detail.data.value?.description ?? detail.data.value?.name}
      actions={
        may("submit") && !detail.data.value?.retired_at ? (
          <ButtonLink to={to`/submit/${name}`} look="primary" icon="submit">
            Submit
          </ButtonLink>
        ) : null
      }
    >
      <Figures name={name} />
      <Resolved resource={detail} what={`workflow ${name}`}>
        {(workflow) => (
          <Tabs
            label="Parts of the workflow"
            tabs={[
              { id: "graph", label: "Graph", panel: () => <WorkflowGraph workflow={workflow} /> },
              { id: "inputs", label: "Inputs", panel: () => <Inputs workflow={workflow} /> },
              {
                id: "yaml",
                label: "YAML",
                panel: () => (
                  <section class="card definition" aria-label="Definition">
                    <Code
                      text={toYaml(tidy(workflow.definition, orderOf(workflow)))}
                      language="yaml"
                      numbers
                      label="Definition"
                    />
                  </section>
                ),
              },
              { id: "versions", label: "Versions", panel: () => <Versions name={name} newest={workflow} /> },
              { id: "nodes", label: "Nodes", panel: () => <NodeFigures name={name} /> },
            ]}
          />
        )}
      </Resolved>
    </Page>
  );
}

/** Nodes from the beginning of the graph to its end. */
function orderOf(workflow: Detail): string[] {
  const nodes = (workflow.layout as unknown as Structure).nodes ?? [];
  return [...nodes].sort((one, other) => one.layer - other.layer || one.x - other.x).map((node) => node.id);
}

function Figures({ name }: { name: string }): JSX.Element {
  const figures = useResource(
    async (signal) => {
      const [metrics, runs] = await Promise.all([
        ok(api.GET("/api/v1/metrics/workflows", { params: { query: { days: 30, workflow_id: name } }, signal })),
        ok(api.GET("/api/v1/metrics/runs", { params: { query: { workflow_id: [name], last: 60 } }, signal })),
      ]);
      return { metrics: metrics.workflows[0], runs: runs.runs[name] ?? [] };
    },
    [name],
    { live: ["jobs"], clears: false },
  );
  return (
    <Resolved resource={figures} what="the figures">
      {({ metrics, runs }) => (
        <section class="card workflow-figures" aria-label="The last 30 days">
          <Stat
            label="Jobs, 30 days"
            value={String(metrics?.total_jobs ?? 0)}
            to={`/jobs?q=${encodeURIComponent(`workflow:${name}`)}`}
          />
          <Stat label="Success" value={percentText(metrics?.success_rate)} />
          <Stat label="Half take at most" value={durationText(metrics?.p50_duration_seconds)} />
          <Stat label="95 % take at most" value={durationText(metrics?.p95_duration_seconds)} />
          <div class="workflow-trend">
            <span class="stat-label">Last runs</span>
            {runs.length > 20 ? (
              <Bars
                title={`Durations of the last runs of ${name}`}
                unit="s"
                height={40}
                points={runs.map((run) => ({
                  label: run.created_at,
                  value: run.duration_seconds,
                  tone: lookOf(run.status).tone,
                }))}
              />
            ) : (
              <RunBars runs={runs} workflow={name} />
            )}
          </div>
        </section>
      )}
    </Resolved>
  );
}

function WorkflowGraph({ workflow }: { workflow: Detail }): JSX.Element {
  const [node, setNode] = useQuery("node", "");
  const nodes = (workflow.definition.nodes ?? {}) as Record<string, unknown>;
  return (
    <Split
      name="node"
      label="Width of the node's definition"
      side={
        node ? (
          <Section title={<span class="mono">{node}</span>}>
            {nodes[node] ? (
              <Code text={toYaml(tidy(nodes[node]))} language="yaml" label={node} />
            ) : (
              <p class="faint">
                {node === "START" || node === "END"
                  ? "Every workflow begins and ends there."
                  : "It is not in this version."}
              </p>
            )}
          </Section>
        ) : null
      }
    >
      <section class="card" aria-label="Graph">
        <Graph
          structure={workflow.layout as unknown as Structure}
          chosen={node}
          onChoose={(next) => setNode(next === node ? null : next)}
        />
      </section>
    </Split>
  );
}

interface Input {
  name: string;
  type: string;
  required: boolean;
  fallback: unknown;
  description: string;
  rules: Record<string, unknown>;
}

function rulesText(rules: Record<string, unknown>): string {
  const words = Object.entries(rules).map(([name, value]) =>
    name === "enum" && Array.isArray(value)
      ? `one of ${value.join(", ")}`
      : `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return words.join("; ");
}

function Inputs({ workflow }: { workflow: Detail }): JSX.Element {
  const inputs = Object.entries((workflow.definition.inputs ?? {}) as Record<string, Record<string, unknown>>).map(
    ([name, spec]): Input => {
      const { type, required, default: fallback, description, ...rules } = spec;
      const left = Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== null && value !== false));
      return {
        name,
        type: String(type ?? "any"),
        required: required === true,
        fallback,
        description: String(description ?? ""),
        rules: left,
      };
    },
  );
  if (inputs.length === 0)
    return (
      <section class="card">
        <Empty title="It takes no inputs" icon="edit">
          Submit it as it is.
        </Empty>
      </section>
    );
  return (
    <section class="card card-flush" aria-label="Inputs">
      <Table<Input>
        label="Inputs"
        rows={inputs}
        rowKey={(input) => input.name}
        columns={[
          { id: "name", title: "Name", width: "min(11rem, 30vw)", cell: (input) => <code>{input.name}</code> },
          { id: "type", title: "Type", width: "5.5rem", cell: (input) => input.type },
          {
            id: "required",
            title: "Required",
            width: "6rem",
            hide: "narrow",
            cell: (input) => (input.required ? "required" : "–"),
          },
          {
            id: "default",
            title: "Default",
            width: "8rem",
            hide: "narrow",
            cell: (input) =>
              input.fallback === undefined || input.fallback === null ? (
                "–"
              ) : (
                <code>{JSON.stringify(input.fallback)}</code>
              ),
          },
          {
            id: "description",
            title: "Description",
            cell: (input) => <span title={input.description}>{input.description}</span>,
          },
          {
            id: "rules",
            title: "Rules",
            hide: "medium",
            cell: (input) =>
              Object.keys(input.rules).length ? (
                <span title={rulesText(input.rules)}>{rulesText(input.rules)}</span>
              ) : (
                "–"
              ),
          },
        ]}
      />
    </section>
  );
}

function Versions({ name, newest }: { name: string; newest: Detail }): JSX.Element {
  const [other, setOther] = useQuery("against", "");
  const versions = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/workflows/{workflow_id}/versions", {
          params: { path: { workflow_id: name }, query: { limit: 100 } },
          signal,
        }),
      ),
    [name],
  );
  const compared = useResource(
    (signal) =>
      other
        ? ok(
            api.GET("/api/v1/workflows/{workflow_id}", {
              params: { path: { workflow_id: name }, query: { version: Number(other) } },
              signal,
            }),
          )
        : Promise.resolve(undefined),
    [name, other],
  );
  return (
    <div class="stack">
      <section class="card card-flush" aria-label="Versions">
        <Resolved resource={versions} what="the versions">
          {(page) => (
            <Table
              label="Versions"
              rows={page.versions}
              rowKey={(version) => String(version.version)}
              columns={[
                {
                  id: "version",
                  title: "Version",
                  width: "7rem",
                  cell: (version) => (
                    <Link to={`/workflows/${name}?version=${version.version}`}>version {version.version}</Link>
                  ),
                },
                {
                  id: "at",
                  title: "Registered",
                  width: "9rem",
                  hide: "narrow",
                  cell: (version) => <Time at={version.registered_at} />,
                },
                { id: "by", title: "By", hide: "narrow", cell: (version) => version.registered_by },
                {
                  id: "hash",
                  title: "Hash",
                  width: "8rem",
                  hide: "narrow",
                  cell: (version) => <code>{version.hash.slice(0, 10)}</code>,
                },
                {
                  id: "compare",
                  title: "",
                  width: "12rem",
                  cell: (version) =>
                    version.version === newest.version ? (
                      <span class="faint">shown</span>
                    ) : (
                      <button type="button" class="link" onClick={() => setOther(String(version.version))}>
                        Compare with {newest.version}
                      </button>
                    ),
                },
              ]}
            />
          )}
        </Resolved>
      </section>
      {compared.data.value ? (
        <Diff
          before={toYaml(tidy(compared.data.value.definition, orderOf(compared.data.value)))}
          after={toYaml(tidy(newest.definition, orderOf(compared.data.value)))}
          titles={[`Version ${compared.data.value.version}`, `Version ${newest.version}`]}
        />
      ) : null}
    </div>
  );
}

function NodeFigures({ name }: { name: string }): JSX.Element {
  const nodes = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/metrics/workflows/{workflow_id}/nodes", {
          params: { path: { workflow_id: name }, query: { days: 30 } },
          signal,
        }),
      ),
    [name],
  );
  return (
    <section class="card card-flush" aria-label="Nodes">
      <Resolved
        resource={nodes}
        what="the figures of nodes"
        isEmpty={(page) => page.nodes.length === 0}
        empty={
          <Empty title="No job of it has finished in 30 days" icon="clock">
            Figures of its nodes appear after the first one.
          </Empty>
        }
      >
        {(page) => (
          <Table
            label="Nodes"
            rows={[...page.nodes].sort(
              (one, other) => (other.p95_duration_seconds ?? 0) - (one.p95_duration_seconds ?? 0),
            )}
            rowKey={(node) => node.node_id}
            columns={[
              { id: "node", title: "Node", cell: (node) => <code>{node.node_id}</code> },
              {
                id: "runs",
                title: "Runs",
                width: "min(6rem, 18vw)",
                align: "right",
                cell: (node) => node.total_executions,
              },
              {
                id: "rate",
                title: "Success",
                width: "min(6rem, 19vw)",
                align: "right",
                cell: (node) => percentText(node.success_rate),
              },
              {
                id: "p50",
                title: "p50",
                width: "6rem",
                align: "right",
                hide: "narrow",
                cell: (node) => durationText(node.p50_duration_seconds),
              },
              {
                id: "p95",
                title: "p95",
                width: "min(6rem, 18vw)",
                align: "right",
                cell: (node) => durationText(node.p95_duration_seconds),
              },
              {
                id: "retries",
                title: "Retries",
                width: "6rem",
                align: "right",
                hide: "narrow",
                cell: (node) => node.total_retries,
              },
            ]}
          />
        )}
      </Resolved>
    </section>
  );
}

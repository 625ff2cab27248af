/** What a revision was made from and what was made from it, as a small graph and as a list. */
import type { JSX } from "preact";
import { api, Link, type Model, ok, Resolved, shortId, to, useResource } from "~/core";
import { Empty, Icon } from "~/widgets";

interface Neighbour {
  key: string;
  role: string;
  title: string;
  to?: string;
}

function sourcesOf(lineage: Model<"Lineage">): Neighbour[] {
  return lineage.sources.map((one, index) =>
    one.source_asset_id
      ? {
          key: String(index),
          role: one.role,
          title: `Asset ${shortId(one.source_asset_id)}, revision ${one.source_revision}`,
          to: to`/assets/${one.source_asset_id}?revision=${one.source_revision ?? 1}`,
        }
      : { key: String(index), role: one.role, title: one.source_url ?? "" },
  );
}

export function LineageView({ asset_id, revision }: { asset_id: string; revision: number }): JSX.Element {
  const lineage = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/assets/{asset_id}/revisions/{revision}/lineage", {
          params: { path: { asset_id, revision } },
          signal,
        }),
      ),
    [asset_id, revision],
  );
  return (
    <Resolved
      resource={lineage}
      what="the lineage"
      isEmpty={(data) => data.sources.length + data.descendants.length === 0}
      empty={
        <Empty title="No lineage recorded" icon="graph">
          Handlers record what a revision was made from; this one names no source, and nothing was made from it.
        </Empty>
      }
    >
      {(data) => (
        <div class="lineage">
          <Side title="Made from" neighbours={sourcesOf(data)} />
          <div class="lineage-self">
            <Icon name="asset" />
            <strong>Revision {revision}</strong>
            <span class="faint">this one</span>
          </div>
          <Side
            title="Used for"
            neighbours={data.descendants.map((one, index) => ({
              key: String(index),
              role: one.role,
              title: `Asset ${shortId(one.asset_id)}, revision ${one.revision}`,
              to: to`/assets/${one.asset_id}?revision=${one.revision}`,
            }))}
          />
        </div>
      )}
    </Resolved>
  );
}

function Side({ title, neighbours }: { title: string; neighbours: readonly Neighbour[] }): JSX.Element {
  return (
    <section class="lineage-side" aria-label={title}>
      <h3>{title}</h3>
      {neighbours.length === 0 ? <p class="faint">Nothing</p> : null}
      <ul>
        {neighbours.slice(0, 100).map((one) => (
          <li key={one.key} class="lineage-node">
            <span class="faint">{one.role}</span>
            {one.to ? <Link to={one.to}>{one.title}</Link> : <code>{one.title}</code>}
          </li>
        ))}
      </ul>
    </section>
  );
}

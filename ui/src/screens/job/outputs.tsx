/** What the job has made: each output as what it is, and the files and items it has published. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, bytesText, counted, countText, type Model, ok, Resolved, useQuery, useResource } from "~/core";
import { CogViewer, cogsOf, FootprintMap, GeoJsonMap, placeOfItem } from "~/map";
import { Button, Chip, Code, CopyButton, Empty, Facts, JsonTree, Loading, Section, Table } from "~/widgets";
import { cellText, columnsOf, kindOf, storedOf } from "./output-kinds";
import { hasEnded, type JobStore, type Overview } from "./store";

type Item = Model<"ItemView">;

export function Outputs({ store }: { store: JobStore }): JSX.Element {
  const job = store.overview.value as Overview;
  const results = Object.entries(job.result_data ?? {});
  return (
    <div class="stack">
      <Published store={store} />
      {results.length === 0 ? (
        <section class="card" aria-label="Results">
          <Empty title={hasEnded(job.status) ? "The job has no result" : "No result yet"} icon="asset">
            {hasEnded(job.status)
              ? job.status === "completed"
                ? "Its workflow names no outputs, and its last nodes returned nothing."
                : "Only jobs that complete have one. What finished nodes returned is in their panels in the graph."
              : "Results appear when the job completes. What a finished node returned is in its panel in the graph."}
          </Empty>
        </section>
      ) : (
        results.map(([name, value]) => <Output key={name} jobId={job.job_id} name={name} value={value} />)
      )}
      {results.length ? (
        <Section title="Fetch it">
          <div class="grid">
            <Code text={`rmhdag job ${job.job_id} --json`} label="On the command line" />
            <Code
              text={`from rmhdag import Client\nprint(Client().job("${job.job_id}").wait().outputs)`}
              label="In Python"
            />
          </div>
        </Section>
      ) : null}
    </div>
  );
}

function Output({ jobId, name, value }: { jobId: string; name: string; value: unknown }): JSX.Element {
  return (
    <Section
      title={<span class="mono">{name}</span>}
      aside={
        <CopyButton text={() => (typeof value === "string" ? value : JSON.stringify(value, null, 2))} label="Copy" />
      }
    >
      <Value jobId={jobId} name={name} value={value} />
    </Section>
  );
}

function Value({ jobId, name, value }: { jobId: string; name: string; value: unknown }): JSX.Element {
  switch (kindOf(value)) {
    case "empty":
      return <p class="faint">Nothing</p>;
    case "number":
      return <p class="output-number num">{(value as number).toLocaleString("en", { maximumFractionDigits: 6 })}</p>;
    case "flag":
      return <p class="output-number">{value ? "yes" : "no"}</p>;
    case "text":
      return (value as string).length > 120 || (value as string).includes("\n") ? (
        <Code text={value as string} label={name} />
      ) : (
        <p class="output-text">{value as string}</p>
      );
    case "table":
      return <Rows name={name} rows={value as Record<string, unknown>[]} />;
    case "geojson":
      return (
        <div class="stack">
          <GeoJsonMap data={value as object} label={`${name} on the map`} height="22rem" />
          <JsonTree value={value} open={0} />
        </div>
      );
    case "stac":
      return <Stac item={value as Record<string, unknown>} />;
    case "stored":
      return <Stored jobId={jobId} name={name} value={value} />;
    default:
      return <JsonTree value={value} open={2} />;
  }
}

function Rows({ name, rows }: { name: string; rows: Record<string, unknown>[] }): JSX.Element {
  const columns = columnsOf(rows);
  return (
    <>
      <div class="table-scroll">
        <Table<{ row: Record<string, unknown>; index: number }>
          label={name}
          rows={rows.slice(0, 1_000).map((row, index) => ({ row, index }))}
          rowKey={(one) => String(one.index)}
          columns={columns.map((column) => ({
            id: column,
            title: column,
            align: typeof rows[0]?.[column] === "number" ? ("right" as const) : ("left" as const),
            cell: (one) => <span title={cellText(one.row[column])}>{cellText(one.row[column])}</span>,
          }))}
        />
      </div>
      <p class="small faint">
        {rows.length > 1_000 ? `The first 1,000 of ${counted(rows.length, "row")}` : counted(rows.length, "row")}
      </p>
    </>
  );
}

function Stac({ item }: { item: Record<string, unknown> }): JSX.Element {
  const properties = (typeof item.properties === "object" && item.properties !== null ? item.properties : {}) as Record<
    string,
    unknown
  >;
  const assets = Object.keys((typeof item.assets === "object" && item.assets !== null ? item.assets : {}) as object);
  return (
    <div class="stack">
      <Facts
        items={[
          [
            "Item",
            <span key="id" class="mono">
              {cellText(item.id)}
            </span>,
          ],
          ["Collection", item.collection ? cellText(item.collection) : null],
          ["Date", properties.datetime ? cellText(properties.datetime) : null],
          ["Projection", properties["proj:code"] ? cellText(properties["proj:code"]) : null],
          ["Assets", assets.length ? assets.join(", ") : null],
        ]}
      />
      {item.geometry ? <GeoJsonMap data={item} label="The item on the map" height="20rem" /> : null}
      <JsonTree value={item} open={1} />
    </div>
  );
}

function Stored({ jobId, name, value }: { jobId: string; name: string; value: unknown }): JSX.Element {
  const reference = storedOf(value);
  const [isAsked, setAsked] = useState(false);
  const stored = useResource(
    (signal) => {
      if (!isAsked || !reference) return Promise.resolve(undefined);
      return ok(
        api.GET("/api/v1/jobs/{job_id}/payloads/{sha256}", {
          params: { path: { job_id: jobId, sha256: reference.sha256 } },
          signal,
        }),
      );
    },
    [isAsked, reference?.sha256],
  );
  const read = stored.data.value as unknown;
  if (read !== undefined) return <Value jobId={jobId} name={name} value={read} />;
  if (isAsked && !stored.error.value) return <Loading what={name} />;
  return (
    <p class="row">
      <Button icon="eye" onClick={() => setAsked(true)}>
        Show {bytesText(reference?.size)}
      </Button>
      <span class="small faint">
        {stored.error.value?.message ?? "Large values are stored by themselves and loaded on request."}
      </span>
    </p>
  );
}

/** Items with their files: pictures, COGs and places. */
function Published({ store }: { store: JobStore }): JSX.Element | null {
  const items = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/jobs/{job_id}/items", {
          params: { path: { job_id: store.jobId }, query: { limit: 100 } },
          signal,
        }),
      ),
    [store.jobId, store.status.value],
    { clears: false },
  );
  const [chosen, setChosen] = useQuery("shown", "");
  if (items.data.value && items.data.value.items.length === 0) return null;
  return (
    <Resolved resource={items} what="the published items">
      {(page) => {
        const idOf = (item: Item) => `${item.collection_id}/${item.item_id}`;
        const item = page.items.find((one) => idOf(one) === chosen) ?? page.items[0];
        if (!item) return null;
        const places = page.items.flatMap((one) => placeOfItem(one) ?? []);
        const cog = cogsOf(item)[0];
        return (
          <>
            {page.items.length > 1 ? (
              <Section title={`${counted(page.items.length, "item")} published`}>
                <div class="stack">
                  <FootprintMap
                    places={places}
                    label="Published items"
                    chosen={idOf(item)}
                    onChoose={(id) => setChosen(id ?? null)}
                    height="18rem"
                    list="none"
                  />
                  <div class="chips">
                    {page.items.slice(0, 40).map((one) => (
                      <Chip key={idOf(one)} chosen={one === item} onToggle={() => setChosen(idOf(one))}>
                        {one.item_id}
                      </Chip>
                    ))}
                  </div>
                </div>
              </Section>
            ) : null}
            <Section title={<span class="mono">{item.item_id}</span>} aside={<span>{item.collection_id}</span>}>
              <div class="stack">
                {cog ? <CogViewer cog={cog} height="26rem" /> : null}
                <Files item={item} />
                <details class="fold">
                  <summary>STAC item</summary>
                  <JsonTree value={item.item} open={1} />
                </details>
              </div>
            </Section>
          </>
        );
      }}
    </Resolved>
  );
}

function Files({ item }: { item: Item }): JSX.Element {
  const files = Object.entries(item.files);
  const picture = files.find(([, file]) => /^image\/(png|jpeg|webp)$/.test(file.media_type ?? ""));
  return (
    <div class="output-files">
      {picture ? (
        <img src={`/api/v1/files/${picture[1].blob_id}`} alt={`${picture[0]} of ${item.item_id}`} loading="lazy" />
      ) : null}
      <ul>
        {files.map(([name, file]) => (
          <li key={name}>
            <a href={`/api/v1/files/${file.blob_id}`} download>
              {name}
            </a>{" "}
            <span class="faint small">
              {file.path} · {bytesText(file.size_bytes)}
            </span>
          </li>
        ))}
      </ul>
      {files.length === 0 ? <p class="faint small">{countText(0)} files are kept for it.</p> : null}
    </div>
  );
}

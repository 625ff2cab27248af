/** One asset: what is served and why, its revisions, and everything that is known about one of them. */
import type { JSX } from "preact";
import {
  api,
  bytesText,
  Link,
  type Model,
  may,
  ok,
  Resolved,
  type ScreenProps,
  shortId,
  to,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import {
  type Column,
  CopyButton,
  Empty,
  ErrorBox,
  Facts,
  JsonTree,
  Page,
  Section,
  Status,
  Table,
  Tabs,
  Time,
} from "~/widgets";
import { Decisions, ownOrder } from "./decisions";
import { LineageView } from "./lineage";
import { RevisionView, useItems } from "./revision-view";
import { standing, titleOf } from "./titles";

type Revision = Model<"RevisionSummary">;

export default function Asset({ params }: ScreenProps): JSX.Element {
  const asset_id = params.asset_id ?? "";
  const path = { asset_id };
  const asset = useResource(
    (signal) => ok(api.GET("/api/v1/assets/{asset_id}", { params: { path }, signal })),
    [asset_id],
    { live: ["jobs"] },
  );
  const revisions = useResource(
    async (signal) =>
      (await ok(api.GET("/api/v1/assets/{asset_id}/revisions", { params: { path, query: { limit: 200 } }, signal })))
        .revisions,
    [asset_id],
    { live: ["jobs"] },
  );
  const reload = () => {
    void asset.reload();
    void revisions.reload();
  };
  const title = titleOf(asset.data.value?.platform_refs, shortId(asset_id));
  useTitle(title);
  return (
    <Resolved resource={asset} what="the asset">
      {(view) => (
        <Page title={title} crumbs={[{ label: "Assets", to: "/assets" }]} lead={standing(view)} wide>
          <Resolved resource={revisions} what="the revisions">
            {(list) => <Revisions asset={view} revisions={list} onDone={reload} />}
          </Resolved>
        </Page>
      )}
    </Resolved>
  );
}

function Revisions({
  asset,
  revisions,
  onDone,
}: {
  asset: Model<"AssetView">;
  revisions: readonly Revision[];
  onDone: () => void;
}): JSX.Element {
  const [chosenText, choose] = useQuery("revision");
  const [againstText, compare] = useQuery("against");
  const complete = revisions.filter((one) => one.status === "completed" && !one.unpublished_at);
  const revision = revisions.find((one) => String(one.revision) === chosenText) ?? complete[0] ?? revisions[0];
  // Only the list of what waits says who must not approve it.
  const waits = revision?.review_state === "pending_review" && may("reviewer");
  const waiting = useResource(
    async (signal) =>
      waits ? (await ok(api.GET("/api/v1/approvals", { params: { query: { limit: 200 } }, signal }))).approvals : [],
    [asset.asset_id, waits],
  );
  if (!revision) return <Empty title="No revision yet" />;
  const against = complete.find((one) => String(one.revision) === againstText && one.revision !== revision.revision);
  const { asset_id } = asset;
  const approval = waiting.data.value?.find(
    (one) => one.kind === "revision" && one.asset_id === asset_id && one.revision === revision.revision,
  );
  return (
    <>
      <div class="asset-bar">
        <label class="map-field">
          Revision
          <select
            value={String(revision.revision)}
            onChange={(event) => choose(event.currentTarget.value, { replace: false })}
          >
            {revisions.map((one) => (
              <option key={one.revision} value={String(one.revision)}>
                {one.revision}
                {one.revision === asset.current_revision ? " (served)" : ""}
                {one.version_label ? ` · ${one.version_label}` : ""}
              </option>
            ))}
          </select>
        </label>
        <Status
          status={
            revision.unpublished_at
              ? "unpublished"
              : revision.review_state === "none"
                ? revision.status
                : revision.review_state
          }
        />
        {complete.length > 1 ? (
          <label class="map-field">
            Compare with
            <select
              value={against ? String(against.revision) : ""}
              onChange={(event) => compare(event.currentTarget.value || null)}
            >
              <option value="">nothing</option>
              {complete
                .filter((one) => one.revision !== revision.revision)
                .map((one) => (
                  <option key={one.revision} value={String(one.revision)}>
                    revision {one.revision}
                  </option>
                ))}
            </select>
          </label>
        ) : null}
        <Decisions
          subject={{ ...revision, asset_id, unpublished_at: revision.unpublished_at ?? null }}
          served={asset.current_revision}
          onDone={onDone}
          notApproved={ownOrder(approval?.not_by ?? [])}
        />
      </div>
      <Tabs
        label="Parts of the revision"
        tabs={[
          {
            id: "map",
            label: "Map",
            panel: () =>
              revision.status === "completed" && !revision.unpublished_at ? (
                <RevisionView
                  key={revision.content_hash}
                  asset_id={asset_id}
                  revision={revision.revision}
                  against={against?.revision}
                />
              ) : (
                <NotThere revision={revision} />
              ),
          },
          { id: "facts", label: "Facts", panel: () => <RevisionFacts asset={asset} revision={revision} /> },
          {
            id: "revisions",
            label: "Revisions",
            count: revisions.length,
            panel: () => <RevisionTable asset={asset} revisions={revisions} />,
          },
          { id: "files", label: "Files", panel: () => <Files asset_id={asset_id} revision={revision.revision} /> },
          {
            id: "lineage",
            label: "Lineage",
            panel: () => <LineageView asset_id={asset_id} revision={revision.revision} />,
          },
          {
            id: "stac",
            label: "STAC items",
            panel: () => <StacItems asset_id={asset_id} revision={revision.revision} />,
          },
        ]}
      />
    </>
  );
}

function NotThere({ revision }: { revision: Revision }): JSX.Element {
  if (revision.unpublished_at)
    return (
      <Empty title="Unpublished" icon="trash">
        Its files were deleted <Time at={revision.unpublished_at} />; it is never served again.
      </Empty>
    );
  return (
    <Empty
      title={`This revision is ${revision.status}`}
      icon="asset"
      action={
        revision.job_id ? (
          <Link class="button" to={to`/jobs/${revision.job_id}`}>
            Open its job
          </Link>
        ) : undefined
      }
    >
      {revision.error_message ?? "There is nothing to show until its job has completed."}
    </Empty>
  );
}

function RevisionFacts({ asset, revision }: { asset: Model<"AssetView">; revision: Revision }): JSX.Element {
  const { asset_id } = asset;
  const whole = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/assets/{asset_id}/revisions/{revision}", {
          params: { path: { asset_id, revision: revision.revision } },
          signal,
        }),
      ),
    [asset_id, revision.revision],
  );
  return (
    <div class="columns">
      <Section title="Revision">
        <Facts
          items={[
            [
              "Made",
              <>
                {revision.source}, <Time at={revision.created_at} /> by {revision.created_by}
              </>,
            ],
            ["Job", revision.job_id ? <Link to={to`/jobs/${revision.job_id}`}>{shortId(revision.job_id)}</Link> : null],
            ["Version", revision.version_label ?? null],
            [
              "Content (SHA-256)",
              revision.content_hash ? (
                <span class="hash">
                  <code>{revision.content_hash}</code>{" "}
                  <CopyButton text={revision.content_hash} words={false} label="Copy the hash" />
                </span>
              ) : (
                "none yet"
              ),
            ],
            [
              "Review",
              <Status
                key="review"
                status={revision.review_state}
                word={revision.review_state === "none" ? "not asked for" : (undefined as never)}
                look="plain"
              />,
            ],
            ["Who may see it", revision.clearance === "undecided" ? null : revision.clearance],
            [
              "Decided",
              revision.decided_at ? (
                <>
                  <Time at={revision.decided_at} /> by {revision.decided_by}
                </>
              ) : null,
            ],
            ["Reason", revision.decision_reason ?? null],
          ]}
        />
      </Section>
      <Section title="Asset">
        <Facts
          items={[
            [
              "Id",
              <span key="id" class="hash">
                <code>{asset_id}</code> <CopyButton text={asset_id} words={false} label="Copy the id" />
              </span>,
            ],
            ["Platform", asset.platform_id],
            ...Object.entries(asset.platform_refs).map(([name, value]) => [name, value] as const),
            ["Kind", asset.kind],
            ["Ordered by", asset.created_by],
          ]}
        />
      </Section>
      <Resolved resource={whole} what="how it was made">
        {(view) => (
          <>
            {view.made_by ? (
              <Section title="How it was made">
                <Facts
                  items={[
                    [
                      "Workflow",
                      <Link
                        key="w"
                        to={to`/workflows/${view.made_by.workflow_id}`}
                      >{`${view.made_by.workflow_id} version ${view.made_by.workflow_version}`}</Link>,
                    ],
                    ["Submitted by", view.made_by.submitted_by],
                  ]}
                />
                <JsonTree value={view.made_by.input_params} name="parameters" open={1} />
              </Section>
            ) : null}
            <Section title="Outputs">
              <JsonTree value={view.outputs} open={2} />
            </Section>
          </>
        )}
      </Resolved>
    </div>
  );
}

function RevisionTable({
  asset,
  revisions,
}: {
  asset: Model<"AssetView">;
  revisions: readonly Revision[];
}): JSX.Element {
  const columns: Column<Revision>[] = [
    {
      id: "revision",
      title: "Revision",
      width: "7rem",
      cell: (one) => (
        <Link to={to`/assets/${asset.asset_id}?revision=${one.revision}`}>
          {one.revision}
          {one.revision === asset.current_revision ? " · served" : ""}
        </Link>
      ),
    },
    {
      id: "status",
      title: "Processing",
      width: "9rem",
      hide: "narrow",
      cell: (one) => <Status status={one.status} look="plain" />,
    },
    {
      id: "review",
      title: "Review",
      width: "12rem",
      cell: (one) =>
        one.review_state === "none" ? <span class="faint">not asked for</span> : <Status status={one.review_state} />,
    },
    {
      id: "decided",
      title: "Decided by",
      hide: "narrow",
      cell: (one) =>
        one.decided_by ? `${one.decided_by}${one.decision_reason ? `: ${one.decision_reason}` : ""}` : "–",
    },
    {
      id: "content",
      title: "Content",
      width: "9rem",
      hide: "narrow",
      cell: (one) => (one.content_hash ? <code title={one.content_hash}>{one.content_hash.slice(0, 12)}</code> : "–"),
    },
    { id: "source", title: "Source", width: "9rem", hide: "medium", cell: (one) => one.source },
    { id: "made", title: "Made", width: "7rem", hide: "narrow", cell: (one) => <Time at={one.created_at} /> },
  ];
  return (
    <Table
      label="Revisions"
      rows={revisions}
      rowKey={(one) => String(one.revision)}
      rowTo={(one) => to`/assets/${asset.asset_id}?revision=${one.revision}`}
      columns={columns}
    />
  );
}

function Files({ asset_id, revision }: { asset_id: string; revision: number }): JSX.Element {
  const blobs = useResource(
    async (signal) =>
      (
        await ok(
          api.GET("/api/v1/assets/{asset_id}/revisions/{revision}/blobs", {
            params: { path: { asset_id, revision }, query: { limit: 500 } },
            signal,
          }),
        )
      ).blobs,
    [asset_id, revision],
  );
  return (
    <Resolved
      resource={blobs}
      what="the files"
      isEmpty={(list) => list.length === 0}
      empty={<Empty title="No files">This revision has recorded no file.</Empty>}
    >
      {(list) => <FileTable files={list} />}
    </Resolved>
  );
}

export function FileTable({ files }: { files: readonly Model<"BlobView">[] }): JSX.Element {
  const columns: Column<Model<"BlobView">>[] = [
    {
      id: "path",
      title: "File",
      cell: (file) =>
        file.state === "present" ? (
          <a href={`/api/v1/files/${file.blob_id}`} download>
            {file.zone}/{file.container}/{file.path}
          </a>
        ) : (
          <span class="faint">
            {file.zone}/{file.container}/{file.path} (deleted)
          </span>
        ),
    },
    { id: "role", title: "Role", width: "7rem", cell: (file) => file.role },
    { id: "size", title: "Size", width: "6rem", align: "right", cell: (file) => bytesText(file.size_bytes) },
    {
      id: "hash",
      title: "SHA-256",
      width: "9rem",
      hide: "narrow",
      cell: (file) => <code title={file.sha256}>{file.sha256.slice(0, 12)}</code>,
    },
    { id: "made", title: "Made", width: "7rem", hide: "medium", cell: (file) => <Time at={file.created_at} /> },
  ];
  return <Table label="Files" rows={files} rowKey={(file) => file.blob_id} columns={columns} />;
}

function StacItems({ asset_id, revision }: { asset_id: string; revision: number }): JSX.Element {
  const items = useItems(asset_id, revision);
  const error = items.error.value;
  if (error) return <ErrorBox error={error} what="the items" retry={items.reload} />;
  return (
    <Resolved
      resource={items}
      what="the items"
      isEmpty={(list) => list.length === 0}
      empty={<Empty title="No STAC items" />}
    >
      {(list) => (
        <>
          {list.slice(0, 20).map((one) => (
            <Section
              key={`${one.collection_id}/${one.item_id}`}
              title={`${one.collection_id} / ${one.item_id}`}
              aside={<CopyButton text={() => JSON.stringify(one.item, null, 2)} label="Copy the item" />}
            >
              <JsonTree value={one.item} open={1} />
            </Section>
          ))}
        </>
      )}
    </Resolved>
  );
}

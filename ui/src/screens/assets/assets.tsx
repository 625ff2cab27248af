/** All assets, in a list and on a map, by how they stand. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, Link, type Model, ok, Resolved, to, toastError, useQuery, useResource, useTitle } from "~/core";
import { BboxFilter, FootprintMap, placeOf } from "~/map";
import { Button, Chip, type Column, Empty, Page, Section, Status, Table, Time } from "~/widgets";
import { Thumbnail } from "./thumbnail";
import { stateOf, titleOf } from "./titles";

type Asset = Model<"AssetSummary">;
type ApprovalState = Model<"ApprovalState">;

const STATES: readonly (readonly [ApprovalState, string])[] = [
  ["pending_review", "Waiting for review"],
  ["approved", "Approved"],
  ["rejected", "Rejected"],
  ["revoked", "Revoked"],
  ["none", "Without review"],
];
const PAGE = 100;
const MOST_FOOTPRINT_PAGES = 6;

async function footprints(
  state: ApprovalState | undefined,
  bbox: string,
  signal: AbortSignal,
): Promise<Model<"Footprint">[]> {
  const features: Model<"Footprint">[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_FOOTPRINT_PAGES; page++) {
    const query = {
      of: "assets" as const,
      ...(state ? { approval_state: state } : {}),
      ...(bbox ? { bbox } : {}),
      ...(cursor ? { cursor } : {}),
    };
    const answer: Model<"FootprintPage"> = await ok(api.GET("/api/v1/footprints", { params: { query }, signal }));
    features.push(...answer.features);
    if (!answer.next_cursor) break;
    cursor = answer.next_cursor;
  }
  return features;
}

export default function Assets(): JSX.Element {
  useTitle("Assets");
  const [stateText, setState] = useQuery("state");
  const [kind, setKind] = useQuery("kind");
  const [bbox, setBbox] = useQuery("bbox");
  const [view, setView] = useQuery("view", "map");
  const state = STATES.find(([name]) => name === stateText)?.[0];
  const kindChoice = (["raster", "vector", "dataset"] as const).find((name) => name === kind);
  const filters = {
    limit: PAGE,
    ...(state ? { approval_state: state } : {}),
    ...(kindChoice ? { kind: kindChoice } : {}),
  };
  const first = useResource(
    (signal) => ok(api.GET("/api/v1/assets", { params: { query: filters }, signal })),
    [state, kindChoice],
    { live: ["jobs"] },
  );
  const [more, setMore] = useState<{ assets: Asset[]; cursor: string | null }>();
  // other filters begin anew
  useEffect(() => setMore(undefined), [state, kindChoice]);
  const places = useResource((signal) => footprints(state, bbox, signal), [state, bbox], {
    live: ["jobs"],
    clears: false,
  });
  const [chosen, setChosen] = useState<string>();
  const features = places.data.value ?? [];
  const shownPlaces = useMemo(
    () => features.filter((one) => !kindChoice || one.properties.kind === kindChoice).map(placeOf),
    [features, kindChoice],
  );
  const pictures = useMemo(() => new Map(features.map((one) => [one.id, one.properties.thumbnail])), [features]);

  const loadMore = async (cursor: string) => {
    try {
      const page = await ok(api.GET("/api/v1/assets", { params: { query: { ...filters, cursor } } }));
      setMore({ assets: [...(more?.assets ?? []), ...page.assets], cursor: page.next_cursor ?? null });
    } catch (error) {
      toastError(error);
    }
  };
  const columns: Column<Asset>[] = [
    {
      id: "asset",
      title: "Asset",
      cell: (asset) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: pointing at a row shows its place; the link is in it
        <span
          class="asset-name"
          onFocusIn={() => setChosen(asset.asset_id)}
          onMouseEnter={() => setChosen(asset.asset_id)}
        >
          <Thumbnail path={pictures.get(asset.asset_id)} />
          <Link to={to`/assets/${asset.asset_id}`}>{titleOf(asset.platform_refs, asset.asset_id)}</Link>
        </span>
      ),
    },
    { id: "state", title: "State", width: "11.5rem", cell: (asset) => <Status status={stateOf(asset)} /> },
    { id: "served", title: "Served", width: "9rem", hide: "narrow", cell: (asset) => revisionText(asset) },
    {
      id: "who",
      title: "For whom",
      width: "7rem",
      hide: "large",
      cell: (asset) => (asset.classification === "undecided" ? "–" : asset.classification),
    },
    { id: "kind", title: "Kind", width: "5rem", hide: "medium", cell: (asset) => asset.kind },
    { id: "platform", title: "Platform", width: "7rem", hide: "medium", cell: (asset) => asset.platform_id },
    {
      id: "content",
      title: "Content",
      width: "7rem",
      hide: "large",
      cell: (asset) =>
        asset.content_hash ? <code title={asset.content_hash}>{asset.content_hash.slice(0, 10)}</code> : "–",
    },
    {
      id: "updated",
      title: "Changed",
      width: "6.5rem",
      hide: "narrow",
      cell: (asset) => <Time at={asset.updated_at} />,
    },
  ];
  const isFiltered = Boolean(state || kindChoice || bbox);
  const clear = () => {
    setState(null);
    setKind(null);
    setBbox(null);
  };
  return (
    <Page
      title="Assets"
      lead="What platforms ordered and got. Each asset has revisions; the newest approved one is served."
      wide
      actions={
        <Button icon="map" pressed={view === "map"} onClick={() => setView(view === "map" ? "list" : "map")}>
          Map
        </Button>
      }
    >
      <div class="chips">
        <Chip chosen={!state} onToggle={() => setState(null)}>
          All
        </Chip>
        {STATES.map(([name, label]) => (
          <Chip key={name} chosen={state === name} onToggle={() => setState(state === name ? null : name)}>
            {label}
          </Chip>
        ))}
        <span class="chips-gap" />
        {(["raster", "vector", "dataset"] as const).map((name) => (
          <Chip key={name} chosen={kindChoice === name} onToggle={() => setKind(kindChoice === name ? null : name)}>
            {name}
          </Chip>
        ))}
        <BboxFilter value={bbox} onChange={setBbox} what="assets" />
      </div>
      {view === "map" ? (
        <Section title="Where they are" aside={<span>{shownPlaces.length} with a place</span>}>
          <FootprintMap
            places={shownPlaces}
            label={`Footprints of ${shownPlaces.length} assets`}
            chosen={chosen}
            onChoose={setChosen}
            list="none"
            height="22rem"
            wheel={false}
          />
        </Section>
      ) : null}
      <Resolved
        resource={first}
        what="the assets"
        isEmpty={(page) => page.assets.length === 0}
        empty={
          isFiltered ? (
            <Empty title="No asset matches" action={<Button onClick={clear}>Clear the filters</Button>}>
              None has this state, kind and area at once.
            </Empty>
          ) : (
            <Empty
              title="No assets yet"
              icon="asset"
              action={
                <Link class="button" to="/submit">
                  Submit a workflow
                </Link>
              }
            >
              An asset appears when a platform orders one, such as with <code>rmhdag demo</code>: a sample raster,
              processed and catalogued.
            </Empty>
          )
        }
      >
        {(page) => {
          const inArea = bbox ? new Set(features.map((one) => one.id)) : undefined;
          const rows = [...page.assets, ...(more?.assets ?? [])].filter(
            (asset) => !inArea || inArea.has(asset.asset_id),
          );
          const cursor = more ? more.cursor : page.next_cursor;
          return (
            <Section
              title="Assets"
              flush
              aside={
                <span>
                  {rows.length}
                  {cursor ? " and more" : ""}
                </span>
              }
            >
              {rows.length === 0 ? (
                <Empty
                  title="No asset in this area"
                  action={<Button onClick={() => setBbox(null)}>Show all areas</Button>}
                />
              ) : (
                <Table
                  label="Assets"
                  rows={rows}
                  rowKey={(asset) => asset.asset_id}
                  rowTo={(asset) => to`/assets/${asset.asset_id}`}
                  columns={columns}
                  {...(cursor ? { onEnd: () => void loadMore(cursor) } : {})}
                />
              )}
            </Section>
          );
        }}
      </Resolved>
    </Page>
  );
}

function revisionText(asset: Asset): JSX.Element {
  if (asset.current_revision === null) return <span class="faint">nothing yet</span>;
  const isNewest = asset.current_revision === asset.latest_revision;
  return (
    <span class="num">
      {asset.current_revision} <span class="faint">{isNewest ? "newest" : `of ${asset.latest_revision}`}</span>
    </span>
  );
}

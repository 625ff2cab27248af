/** What a revision shows: its raster on the map, compared with another one, or its picture. */
import type { JSX } from "preact";
import { api, type Model, ok, Resolved, useQuery, useResource } from "~/core";
import { CogViewer, cogsOf, FootprintMap, GeoJsonMap, placeOfItem } from "~/map";
import { Empty } from "~/widgets";
import { Thumbnail } from "./thumbnail";

export function useItems(asset_id: string, revision: number | undefined) {
  return useResource(
    async (signal) =>
      revision === undefined
        ? []
        : (
            await ok(
              api.GET("/api/v1/assets/{asset_id}/revisions/{revision}/items", {
                params: { path: { asset_id, revision }, query: { limit: 100 } },
                signal,
              }),
            )
          ).items,
    [asset_id, revision],
  );
}

interface RevisionViewProps {
  asset_id: string;
  revision: number;
  /** To compare with; its raster is drawn on the left of a slider. */
  against?: number | undefined;
  height?: string;
}

export function RevisionView({ asset_id, revision, against, height = "30rem" }: RevisionViewProps): JSX.Element {
  const items = useItems(asset_id, revision);
  const others = useItems(asset_id, against);
  return (
    <Resolved
      resource={items}
      what="what the revision shows"
      isEmpty={(list) => list.length === 0}
      empty={<WhereItLies asset_id={asset_id} revision={revision} height={height} />}
    >
      {(list) => (
        <ItemsView
          items={list}
          before={others.data.value ?? []}
          revision={revision}
          against={against}
          height={height}
        />
      )}
    </Resolved>
  );
}

/** Without items, as vector data may be: where the data lie, as far as that is known. */
function WhereItLies({ asset_id, revision, height }: RevisionViewProps): JSX.Element {
  const whole = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/assets/{asset_id}/revisions/{revision}", { params: { path: { asset_id, revision } }, signal }),
      ),
    [asset_id, revision],
  );
  return (
    <Resolved resource={whole} what="where the revision lies">
      {({ footprint }) =>
        footprint ? (
          <div class="items-view">
            <p class="soft">This is where its data lie. It has published no STAC item that shows more.</p>
            <GeoJsonMap data={footprint} label="Where the data lie" height={height} />
          </div>
        ) : (
          <Empty title="Nothing to show on a map" icon="map">
            This revision has published no STAC item, and neither its tables nor its output “bbox” say where it lies.
            Its page lists its files and outputs.
          </Empty>
        )
      }
    </Resolved>
  );
}

interface ItemsViewProps {
  items: readonly Model<"ItemView">[];
  before?: readonly Model<"ItemView">[];
  revision?: number;
  against?: number | undefined;
  height?: string;
}

/** The items of a revision or a job: one raster at a time, and where all of them lie. */
export function ItemsView({ items, before = [], revision, against, height = "30rem" }: ItemsViewProps): JSX.Element {
  const [chosenItem, chooseItem] = useQuery("item");
  const item = items.find((one) => one.item_id === chosenItem) ?? items[0];
  const cog = item ? cogsOf(item)[0] : undefined;
  const earlier = item ? (before.find((one) => one.item_id === item.item_id) ?? before[0]) : undefined;
  const picture = item?.files.thumbnail;
  const places = items.flatMap((one) => placeOfItem(one) ?? []);
  return (
    <div class="items-view">
      {items.length > 1 ? (
        <label class="map-field">
          Item
          <select value={item?.item_id} onChange={(event) => chooseItem(event.currentTarget.value)}>
            {items.map((one) => (
              <option key={`${one.collection_id}/${one.item_id}`} value={one.item_id}>
                {one.item_id}
              </option>
            ))}
          </select>
        </label>
      ) : null}
      {cog ? (
        <CogViewer
          cog={cog}
          before={earlier ? cogsOf(earlier)[0] : undefined}
          beforeTitle={`Revision ${against ?? ""}`}
          title={`Revision ${revision ?? ""}`}
          height={height}
        />
      ) : places.length ? (
        <FootprintMap places={places} label="Footprints of the items" height={height} />
      ) : item ? (
        <GeoJsonMap data={item.item} label="The item" height={height} />
      ) : null}
      {cog && picture ? (
        <details class="map-details">
          <summary>The picture that the task made</summary>
          <Thumbnail path={`/api/v1/files/${picture.blob_id}`} size="large" />
        </details>
      ) : null}
    </div>
  );
}

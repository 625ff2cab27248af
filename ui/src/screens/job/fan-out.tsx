/** The children of a fan-out: all of them at a glance, the failed ones first, how long they took, and where they lie. */
import { batch, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import {
  type ApiError,
  api,
  asApiError,
  counted,
  countText,
  durationText,
  Link,
  type Model,
  may,
  ok,
  setQuery,
  toastError,
  useQuery,
  useQueryList,
  useResource,
} from "~/core";
import { boxOfParams, gridOf, type Tile, TileMap, type TileRange } from "~/map";
import {
  Button,
  Chip,
  Duration,
  Empty,
  ErrorBox,
  Loading,
  lookOf,
  ProgressBar,
  Split,
  Status,
  sharesOf,
  Table,
  Tabs,
} from "~/widgets";
import { retryFailed, retryNode } from "./actions";
import { NodePanel } from "./node-panel";
import { childOf, histogram, percentile, withDigit } from "./squares";
import { Squares } from "./squares-view";
import { hasEnded, type JobStore, type NodeOverview, statusOfEvent } from "./store";

type Children = Model<"FanOutChildren">;

const REREAD_MS = 4_000;

type Places = NonNullable<Children["places"]>;
const padded = (places: Places | null | undefined, count: number): Places => places ?? Array(count).fill(null);

/** All pages of the columns, as one. */
async function readColumns(jobId: string, node: string): Promise<Children> {
  const path = { job_id: jobId, node_id: node };
  const query = { keys: true, places: true };
  const whole = await ok(api.GET("/api/v1/jobs/{job_id}/nodes/{node_id}/children", { params: { path, query } }));
  let next = whole.next_first;
  while (next !== null && next !== undefined && whole.statuses.length < 200_000) {
    const page = await ok(
      api.GET("/api/v1/jobs/{job_id}/nodes/{node_id}/children", {
        params: { path, query: { ...query, first: next, limit: 20_000 } },
      }),
    );
    whole.statuses += page.statuses;
    whole.attempts.push(...page.attempts);
    whole.started_ms.push(...page.started_ms);
    whole.duration_ms.push(...page.duration_ms);
    whole.keys?.push(...(page.keys ?? []));
    // A page on which no child lies anywhere has no column of places.
    if (whole.places || page.places)
      whole.places = [...padded(whole.places, page.first), ...padded(page.places, page.statuses.length)];
    next = page.next_first;
  }
  return whole;
}

export function FanOut({ store, onRerun }: { store: JobStore; onRerun: (from: string) => void }): JSX.Element {
  const [asked] = useQuery("node", "");
  const fanOuts = store.all().filter((node) => node.children);
  const child = childOf(asked);
  const name = child?.parent ?? asked;
  const fanOut = fanOuts.find((node) => node.node_id === name) ?? fanOuts[0];
  if (!fanOut) {
    return (
      <Empty title="No fan-out has begun" icon="fan">
        As soon as one knows its items, each of them is a square here.
      </Empty>
    );
  }
  return (
    <Split
      name="node"
      label="Width of the node's details"
      sideFirst
      side={child ? <NodePanel key={asked} store={store} name={asked} onRerun={onRerun} /> : null}
    >
      <div class="stack">
        {fanOuts.length > 1 ? (
          <div class="chips" role="group" aria-label="Fan-outs">
            {fanOuts.map((node) => (
              <Chip
                key={node.node_id}
                chosen={node === fanOut}
                count={countText(node.children?.total ?? 0)}
                onToggle={() => setQuery({ node: node.node_id })}
              >
                {node.node_id}
              </Chip>
            ))}
          </div>
        ) : null}
        <Columns key={fanOut.node_id} store={store} fanOut={fanOut} chosen={child?.index} />
      </div>
    </Split>
  );
}

function Columns({
  store,
  fanOut,
  chosen,
}: {
  store: JobStore;
  fanOut: NodeOverview;
  chosen: number | undefined;
}): JSX.Element {
  const columns = useSignal<Children | undefined>(undefined);
  const statuses = useSignal("");
  const error = useSignal<ApiError | undefined>(undefined);
  const name = fanOut.node_id;
  useEffect(() => {
    let readAt = 0;
    let timer: number | undefined;
    const read = async () => {
      readAt = Date.now();
      try {
        const read = await readColumns(store.jobId, name);
        batch(() => {
          columns.value = read;
          statuses.value = read.statuses;
          error.value = undefined;
        });
      } catch (problem) {
        error.value = asApiError(problem);
      }
    };
    void read();
    // Squares follow events at once; durations and what was missed come with the next reading.
    const end = store.onChildren((events) => {
      let text = statuses.peek();
      const legend = columns.peek()?.legend ?? [];
      let isMeant = events.length === 0;
      for (const event of events) {
        const child = childOf(event.node_id);
        const status = statusOfEvent(event.event_type);
        if (child?.parent !== name) isMeant ||= event.node_id === name || event.event_type.startsWith("job_");
        else if (status) {
          isMeant = true;
          const digit = (legend as string[]).indexOf(status);
          if (digit >= 0 && child.index < text.length) text = withDigit(text, child.index, String(digit));
        }
      }
      if (text !== statuses.peek()) statuses.value = text;
      if (isMeant && timer === undefined) {
        timer = window.setTimeout(
          () => {
            timer = undefined;
            void read();
          },
          Math.max(300, REREAD_MS - (Date.now() - readAt)),
        );
      }
    });
    return () => {
      end();
      window.clearTimeout(timer);
    };
  }, [store, name]);
  if (!columns.value)
    return error.value ? (
      <ErrorBox error={error.value} what="the children" />
    ) : (
      <Loading what="the children" rows={6} />
    );
  return <Panel store={store} fanOut={fanOut} columns={columns.value} statuses={statuses} chosen={chosen} />;
}

interface PanelProps {
  store: JobStore;
  fanOut: NodeOverview;
  columns: Children;
  statuses: { value: string; peek(): string };
  chosen: number | undefined;
}

function Panel({ store, fanOut, columns, statuses, chosen }: PanelProps): JSX.Element {
  const name = fanOut.node_id;
  const [states, setStates] = useQueryList("child");
  const [text, setText] = useQuery("item", "");
  const counts = fanOut.children;
  const legend = columns.legend as string[];
  const digits = new Set(states.map((state) => String(legend.indexOf(state))));
  const low = text.toLowerCase();
  const isShown = (index: number) =>
    (digits.size === 0 || digits.has(statuses.peek()[index] ?? "")) &&
    (low === "" || (columns.keys?.[index] ?? "").toLowerCase().includes(low) || String(index) === low);
  const choose = (index: number) => setQuery({ node: `${name}__${index}` });
  const nameOf = (index: number) => `${countText(index)} ${columns.keys?.[index] ?? ""}`;
  const failed = counts?.failed ?? 0;
  const hasPlaces = columns.places?.some((place) => place !== null) ?? false;
  return (
    <section class="card" aria-label={`Fan-out ${name}`}>
      <header class="card-head">
        <h2 class="mono">{name}</h2>
        <div class="card-aside">
          {may("operate") && failed > 0 && hasEnded(store.status.value) ? (
            <Button icon="retry" look="primary" onClick={() => retryFailed(store)}>
              Retry {countText(failed)} failed
            </Button>
          ) : null}
          {may("operate") && failed > 0 && !hasEnded(store.status.value) && failed <= 50 ? (
            <Button icon="retry" onClick={() => void retryChildren(store, name, columns, statuses.peek())}>
              Try {countText(failed)} failed again
            </Button>
          ) : null}
        </div>
      </header>
      <div class="card-body stack">
        {counts ? (
          <ProgressBar shares={sharesOf(counts)} total={Math.max(1, counts.total)} label={`Children of ${name}`} />
        ) : null}
        <div class="row">
          <span class="chips" role="group" aria-label="States">
            {legend
              .map(
                (state) =>
                  [state, state === "pending" ? (counts?.pending ?? 0) : (counts?.[state as "ready"] ?? 0)] as const,
              )
              .filter(([state, count]) => count > 0 || states.includes(state))
              .map(([state, count]) => (
                <Chip
                  key={state}
                  tone={lookOf(state).tone}
                  count={countText(count)}
                  chosen={states.includes(state)}
                  onToggle={() =>
                    setStates(states.includes(state) ? states.filter((one) => one !== state) : [...states, state])
                  }
                >
                  {lookOf(state).word}
                </Chip>
              ))}
          </span>
          <input
            type="search"
            class="input"
            placeholder="Item or index"
            aria-label="Filter by item or index"
            value={text}
            onInput={(event) => setText(event.currentTarget.value || null)}
          />
        </div>
        <Tabs
          label="Views of the children"
          param="as"
          tabs={[
            {
              id: "squares",
              label: "Squares",
              panel: () => (
                <Squares
                  statuses={statuses as never}
                  legend={legend}
                  isShown={isShown}
                  filter={`${states.join()} ${text}`}
                  chosen={chosen}
                  onChoose={choose}
                  nameOf={nameOf}
                />
              ),
            },
            ...(hasPlaces
              ? [
                  {
                    id: "map",
                    label: "Map",
                    panel: () => (
                      <ChildMap
                        store={store}
                        name={name}
                        columns={columns}
                        statuses={statuses.value}
                        chosen={chosen}
                        onChoose={choose}
                      />
                    ),
                  },
                ]
              : []),
            {
              id: "durations",
              label: "Durations",
              panel: () => <Durations columns={columns} statuses={statuses.value} onChoose={choose} nameOf={nameOf} />,
            },
          ]}
        />
        <ChildTable store={store} name={name} columns={columns} statuses={statuses} isShown={isShown} failed={failed} />
      </div>
    </section>
  );
}

async function retryChildren(store: JobStore, name: string, columns: Children, statuses: string): Promise<void> {
  const digit = String((columns.legend as string[]).indexOf("failed"));
  try {
    for (let index = 0; index < statuses.length; index++)
      if (statuses[index] === digit) await retryNode(store, `${name}__${index}`);
  } catch (error) {
    toastError(error);
  }
}

function ChildMap(props: {
  store: JobStore;
  name: string;
  columns: Children;
  statuses: string;
  chosen: number | undefined;
  onChoose: (index: number) => void;
}): JSX.Element {
  const { store, name, columns, statuses } = props;
  const first = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/jobs/{job_id}/nodes/{node_id}", {
          params: { path: { job_id: store.jobId, node_id: `${name}__0` } },
          signal,
        }),
      ),
    [store.jobId, name],
  );
  const params = first.data.value?.input_params;
  const grid = useMemo(() => gridOf(params), [params]);
  const ranges = useMemo(() => {
    const found = new Map<number, TileRange>();
    for (const [index, place] of (columns.places ?? []).entries())
      if (place?.length === 2) found.set(index, { first: place[0] as number, count: place[1] as number });
    return found;
  }, [columns.places]);
  const tiles: Tile[] = useMemo(
    () =>
      [...statuses].map((digit, index) => {
        const state = (columns.legend as string[])[Number(digit)] ?? "pending";
        const { word, tone } = lookOf(state);
        const bbox = boxOfParams({ bbox: columns.places?.[index] });
        return { index, state: word, tone, label: columns.keys?.[index] ?? String(index), ...(bbox ? { bbox } : {}) };
      }),
    [statuses, columns],
  );
  return (
    <TileMap
      tiles={tiles}
      grid={grid}
      ranges={ranges}
      label={`Children of ${name} on the map`}
      chosen={props.chosen}
      onChoose={(index) => index !== undefined && props.onChoose(index)}
      height="26rem"
    />
  );
}

function Durations({
  columns,
  statuses,
  onChoose,
  nameOf,
}: {
  columns: Children;
  statuses: string;
  onChoose: (index: number) => void;
  nameOf: (index: number) => string;
}): JSX.Element {
  const values = columns.duration_ms.flatMap((value, index) => (value === null ? [] : [[value, index] as const]));
  if (values.length < 2) return <p class="faint small">Durations appear as soon as a few children have ended.</p>;
  const sorted = values.map(([value]) => value).sort((one, other) => one - other);
  const bins = histogram(sorted);
  const most = Math.max(...bins.map((bin) => bin.count));
  const slowest = [...values].sort((one, other) => other[0] - one[0]).slice(0, 8);
  const seconds = (value: number | undefined) => durationText((value ?? 0) / 1000);
  return (
    <div class="durations">
      <figure>
        <div
          class="histogram"
          role="img"
          aria-label={`Durations of ${counted(values.length, "child", "children")} that ended: half took at most ${seconds(percentile(sorted, 0.5))}, 95 % at most ${seconds(percentile(sorted, 0.95))}, the longest ${seconds(sorted.at(-1))}`}
        >
          {bins.map((bin) => (
            <span
              key={bin.from}
              style={{ height: `${bin.count ? Math.max(2, (100 * bin.count) / most) : 0}%` }}
              title={`${seconds(bin.from)} to ${seconds(bin.to)}: ${countText(bin.count)}`}
            />
          ))}
        </div>
        <figcaption class="small faint histogram-axis">
          <span>{seconds(bins[0]?.from)}</span>
          <span>
            half ≤ {seconds(percentile(sorted, 0.5))} · 95 % ≤ {seconds(percentile(sorted, 0.95))}
          </span>
          <span>{seconds(bins.at(-1)?.to)}</span>
        </figcaption>
      </figure>
      <div>
        <h3>Slowest</h3>
        <ol class="slowest">
          {slowest.map(([value, index]) => (
            <li key={index}>
              <button type="button" class="link" onClick={() => onChoose(index)}>
                {nameOf(index)}
              </button>{" "}
              <Status status={(columns.legend as string[])[Number(statuses[index])] ?? ""} look="icon" />{" "}
              <span class="num">{seconds(value)}</span>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

const childPath = (store: JobStore, node: string): string =>
  `/jobs/${store.jobId}?tab=fan-out&node=${encodeURIComponent(node)}`;

const ERRORS = 200;

/** Failed ones first; then by index. All but the errors is in the columns, so every child is found by its item. */
function ChildTable({
  store,
  name,
  columns,
  statuses,
  isShown,
  failed,
}: {
  store: JobStore;
  name: string;
  columns: Children;
  statuses: PanelProps["statuses"];
  isShown: (index: number) => boolean;
  failed: number;
}): JSX.Element {
  const details = useResource(
    async (signal) => {
      const path = { job_id: store.jobId };
      // Of those that failed their errors, else of one how often it may be tried.
      const query = { parent: name, ...(failed > 0 ? { status: ["failed" as const], limit: ERRORS } : { limit: 1 }) };
      const read = await ok(api.GET("/api/v1/jobs/{job_id}/nodes", { params: { path, query }, signal }));
      return new Map(read.nodes.map((node) => [node.fan_out_index, node]));
    },
    [store.jobId, name, failed],
    { live: store.isOpen.value ? [`job:${store.jobId}`] : [], clears: false },
  );
  const known = details.data.value;
  const most = known?.values().next().value?.max_retries;
  const digits = statuses.value;
  const bad = String((columns.legend as string[]).indexOf("failed"));
  const shown = Array.from({ length: digits.length }, (_, index) => index).filter(isShown);
  const rows = [...shown.filter((index) => digits[index] === bad), ...shown.filter((index) => digits[index] !== bad)];
  const stateOf = (index: number) => (columns.legend as string[])[Number(digits[index])] ?? "pending";
  const origin = columns.origin_at ? Date.parse(columns.origin_at) : 0;
  return (
    <>
      <Table<number>
        label={`Children of ${name}`}
        rows={rows}
        rowKey={(index) => `${name}__${index}`}
        rowTo={(index) => childPath(store, `${name}__${index}`)}
        columns={[
          { id: "status", title: "State", width: "8rem", cell: (index) => <Status status={stateOf(index)} /> },
          { id: "index", title: "Index", width: "5rem", align: "right", cell: (index) => countText(index) },
          {
            id: "item",
            title: "Item",
            cell: (index) => (
              <Link to={childPath(store, `${name}__${index}`)}>{columns.keys?.[index] ?? `${name}__${index}`}</Link>
            ),
          },
          {
            id: "attempt",
            title: "Attempt",
            width: "5rem",
            align: "right",
            hide: "narrow",
            cell: (index) =>
              most === undefined ? columns.attempts[index] : `${columns.attempts[index]} of ${most + 1}`,
          },
          {
            id: "duration",
            title: "Duration",
            width: "6.5rem",
            align: "right",
            cell: (index) => {
              const [started, took] = [columns.started_ms[index] ?? null, columns.duration_ms[index] ?? null];
              if (took !== null) return <Duration seconds={took / 1000} />;
              return started === null || stateOf(index) !== "running" ? (
                "–"
              ) : (
                <Duration since={new Date(origin + started).toISOString()} />
              );
            },
          },
          {
            id: "error",
            title: "Error",
            hide: "narrow",
            cell: (index) => {
              const error = digits[index] === bad ? (known?.get(index)?.error_message ?? "") : "";
              return (
                <span class="cut" title={error}>
                  {error}
                </span>
              );
            },
          },
        ]}
      />
      {details.error.value ? (
        <ErrorBox error={details.error.value} what="the errors" retry={details.reload} />
      ) : failed > ERRORS ? (
        <p class="pane-note small faint">
          Errors are listed for {countText(ERRORS)} of the {countText(failed)} that failed; open another one to read its
          own.
        </p>
      ) : null}
    </>
  );
}

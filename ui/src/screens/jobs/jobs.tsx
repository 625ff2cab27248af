/** All jobs, by any filter. Rows never move by themselves. */
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import {
  api,
  counted,
  countText,
  type Density,
  density,
  densityHere,
  densityShown,
  isDensity,
  may,
  ok,
  subscribe,
  toastError,
  useKeys,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { BboxFilter } from "~/map";
import {
  Button,
  ButtonLink,
  Chip,
  Code,
  Empty,
  ErrorBox,
  FilterBar,
  Loading,
  Menu,
  NoPermission,
  Page,
  Status,
  Table,
} from "~/widgets";
import { canCancel, cancelJobs, canRerun, canRetry, retryJobs } from "./bulk";
import { columnsOf, hiddenColumns, OPTIONAL } from "./columns";
import { JobDetailRow } from "./detail-row";
import { readAll, saveFile, toCsv } from "./export";
import { LabelDialog } from "./label-dialog";
import { parseQuery, STATUSES, tokens, withoutToken, withStatus, withWord } from "./query";
import { type Job, JobRows } from "./rows";
import { Views } from "./views";

const PROGRESS_MS = 3000;

export default function Jobs(): JSX.Element {
  useTitle("Jobs");
  const [text, setText] = useQuery("q");
  const { query, problem } = useMemo(() => parseQuery(text), [text]);
  const list = useMemo(() => new JobRows(query), []);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    setSelected(new Set());
    if (problem === undefined) void list.load(query);
  }, [query, problem, list]);
  useEffect(() => {
    const end = subscribe("jobs", (events) => list.hear(events));
    const timer = window.setInterval(() => !document.hidden && void list.readProgress(), PROGRESS_MS);
    return () => {
      end();
      window.clearInterval(timer);
      list.stop();
    };
  }, [list]);
  const { status: _, ...anyStatus } = query;
  const counts = useResource(
    (signal) => ok(api.GET("/api/v1/jobs/counts", { params: { query: anyStatus }, signal })),
    [JSON.stringify(anyStatus)],
    { live: ["jobs"], clears: false },
  );
  const usual = useResource(
    (signal) => ok(api.GET("/api/v1/metrics/workflows", { params: { query: { days: 7 } }, signal })),
    [],
    {
      everySeconds: 120,
    },
  );
  const chosen = list.rows.value.filter((job) => selected.has(job.job_id));
  const clear = () => setSelected(new Set());
  const [labelling, setLabelling] = useState(false);
  useKeys(() => {
    if (chosen.length === 0 || !may("operate")) return [];
    return [
      { keys: "c", label: "Cancel the selected jobs", group: "List", run: () => cancelJobs(chosen, clear) },
      { keys: "r", label: "Retry the selected jobs", group: "List", run: () => retryJobs(chosen, false, clear) },
      {
        keys: "Shift+R",
        label: "Run the selected jobs again",
        group: "List",
        run: () => retryJobs(chosen, true, clear),
      },
      { keys: "t", label: "Label the selected jobs", group: "List", run: () => setLabelling(true) },
    ];
  }, [selected, list.rows.value]);
  const look = useLook();
  const hasLabels = list.rows.value.some((job) => Object.keys(job.labels ?? {}).length > 0);
  const columns = columnsOf(list.progress.value, usual.data.value?.workflows ?? [], look.columns, hasLabels);
  return (
    <Page
      title="Jobs"
      wide
      actions={
        <>
          <Export query={query} />
          {may("submit") ? (
            <ButtonLink to="/submit" look="primary" icon="submit">
              New job
            </ButtonLink>
          ) : null}
        </>
      }
    >
      <FilterBar
        label="Filter the jobs"
        placeholder="status:failed workflow:raster_processing label:aoi=oslo since:2h, or the beginning of an id or name"
        text={text}
        onChange={(next) => setText(next.trim(), { replace: false })}
        problem={problem}
        suggestions={suggestionsFor(text, usual.data.value?.workflows.map((one) => one.workflow_id) ?? [])}
      >
        {STATUSES.map((status) => (
          <Chip
            key={status}
            chosen={query.status?.includes(status) ?? false}
            onToggle={() => setText(withStatus(text, status), { replace: false })}
            count={countShown(counts.data.value, status)}
          >
            <Status status={status} look="plain" />
          </Chip>
        ))}
        {tokens(text)
          .filter((token) => token.word !== undefined && token.word !== "status" && token.word !== "area")
          .map((token) => (
            <Chip key={token.text} onRemove={() => setText(withoutToken(text, token), { replace: false })}>
              {token.word}: {token.value}
            </Chip>
          ))}
        <BboxFilter
          what="jobs"
          value={query.bbox ?? ""}
          onChange={(area) => setText(withWord(text, "area", area), { replace: false })}
        />
        <Views
          present={() => ({
            ...(text.trim() ? { q: text.trim() } : {}),
            columns: look.columns.join(",") || "none",
            density: densityShown.value,
          })}
        />
        <ColumnPicker columns={look.columns} onToggle={look.toggle} onDensity={look.setDensity} />
      </FilterBar>
      {chosen.length > 0 ? <SelectionBar chosen={chosen} onClear={clear} onLabel={() => setLabelling(true)} /> : null}
      {labelling && chosen.length > 0 ? (
        <LabelDialog
          jobs={chosen}
          onClose={() => setLabelling(false)}
          onDone={(labels) => {
            list.relabel(labels);
            clear();
          }}
        />
      ) : null}
      {list.fresh.value.length > 0 ? (
        <button type="button" class="jobs-fresh" onClick={() => list.showFresh()}>
          {countText(list.fresh.value.length)} new
        </button>
      ) : null}
      <List list={list} text={text} hasFilter={text.trim() !== ""} onClear={() => setText(null, { replace: false })}>
        {(rows) => (
          <div class="card card-flush">
            <Table
              label="Jobs, newest first"
              rows={rows}
              columns={columns}
              rowKey={(job) => job.job_id}
              rowTo={(job) => `/jobs/${job.job_id}`}
              selected={selected}
              onSelect={setSelected}
              detail={(job) => <JobDetailRow job={job} />}
              onEnd={list.loadMore}
            />
          </div>
        )}
      </List>
      <p class="faint small" role="status">
        {list.isLoaded.value
          ? `${counted(list.rows.value.length, "job")} loaded${list.hasMore.value ? "; more come as you scroll" : ""}.`
          : ""}
      </p>
    </Page>
  );
}

function countShown(counts: { counts: Record<string, number>; most: number } | undefined, status: string) {
  const count = counts?.counts[status];
  if (counts === undefined || count === undefined) return undefined;
  return count >= counts.most ? `≥ ${countText(counts.most)}` : countText(count);
}

function suggestionsFor(text: string, workflows: readonly string[]): string[] {
  const before = text.trim() ? `${text.trim()} ` : "";
  return [
    ...STATUSES.map((status) => `${before}status:${status}`),
    ...workflows.slice(0, 20).map((id) => `${before}workflow:${id}`),
    ...["since:1h", "since:24h", "since:7d"].map((since) => before + since),
  ];
}

interface ListProps {
  list: JobRows;
  text: string;
  hasFilter: boolean;
  onClear: () => void;
  children: (rows: readonly Job[]) => JSX.Element;
}

function List({ list, text, hasFilter, onClear, children }: ListProps): JSX.Element {
  const error = list.error.value;
  if (!list.isLoaded.value) {
    if (!error) return <Loading what="the jobs" rows={8} />;
    if (error.isForbidden) return <NoPermission error={error} what="jobs" />;
    return <ErrorBox error={error} what="the jobs" retry={() => void list.load()} />;
  }
  if (list.rows.value.length > 0) return children(list.rows.value);
  if (list.loading.value) return <Loading what="the jobs" rows={8} />;
  if (hasFilter) {
    return (
      <Empty
        title={`No job matches “${text}”`}
        icon="filter"
        action={<Button onClick={onClear}>Clear the filter</Button>}
      >
        Jobs that match appear here as soon as they are submitted.
      </Empty>
    );
  }
  return (
    <Empty title="No jobs yet" icon="jobs" action={<Code text="rmhdag submit hello_world name=Ada --wait" />}>
      A job is one run of a workflow. Submit one here, from Python, or with the command below.
    </Empty>
  );
}

interface SelectionBarProps {
  chosen: readonly Job[];
  onClear: () => void;
  onLabel: () => void;
}

function SelectionBar({ chosen, onClear, onLabel }: SelectionBarProps): JSX.Element {
  return (
    <div class="jobs-selection" role="toolbar" aria-label="Actions on the selected jobs">
      <strong>{counted(chosen.length, "job")} selected</strong>
      {may("operate") ? (
        <>
          <Button icon="stop" look="danger" disabled={!canCancel(chosen)} onClick={() => cancelJobs(chosen, onClear)}>
            Cancel
          </Button>
          <Button icon="retry" disabled={!canRetry(chosen)} onClick={() => retryJobs(chosen, false, onClear)}>
            Retry what failed
          </Button>
          <Button icon="play" disabled={!canRerun(chosen)} onClick={() => retryJobs(chosen, true, onClear)}>
            Run again
          </Button>
          <Button icon="edit" onClick={onLabel}>
            Label…
          </Button>
        </>
      ) : null}
      <Button icon="download" onClick={() => saveFile("jobs.csv", "text/csv", toCsv(chosen))}>
        CSV
      </Button>
      <Button
        icon="download"
        onClick={() => saveFile("jobs.json", "application/json", JSON.stringify(chosen, null, 2))}
      >
        JSON
      </Button>
      <Button look="quiet" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}

function Export({ query }: { query: ReturnType<typeof parseQuery>["query"] }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const save = async (kind: "csv" | "json") => {
    setBusy(true);
    try {
      const jobs = await readAll(query);
      if (kind === "csv") saveFile("jobs.csv", "text/csv", toCsv(jobs));
      else saveFile("jobs.json", "application/json", JSON.stringify(jobs, null, 2));
    } catch (error) {
      toastError(error);
    }
    setBusy(false);
  };
  return (
    <>
      <Button icon="download" busy={busy} onClick={() => save("csv")} title="All jobs of this list, up to 10,000">
        CSV
      </Button>
      <Button icon="download" busy={busy} onClick={() => save("json")} title="All jobs of this list, up to 10,000">
        JSON
      </Button>
    </>
  );
}

/** Which columns are shown and how high rows are: chosen by the person, unless the address says so. */
function useLook() {
  const [columnText, setColumnText] = useQuery("columns");
  const [densityText, setDensityText] = useQuery("density");
  const names = OPTIONAL.map(([id]) => id);
  const columns = columnText
    ? names.filter((id) => columnText.split(",").includes(id))
    : names.filter((id) => !hiddenColumns.value.includes(id));
  const asked = isDensity(densityText) ? densityText : undefined;
  useEffect(() => {
    densityHere.value = asked;
    return () => {
      densityHere.value = undefined;
    };
  }, [asked]);
  return {
    columns,
    toggle: (id: string) => {
      const next = names.filter((one) => (one === id) !== columns.includes(one));
      hiddenColumns.value = names.filter((one) => !next.includes(one));
      // A view that was opened by its address stays what it is until something else is chosen.
      if (columnText) setColumnText(next.join(",") || "none");
    },
    setDensity: (next: Density) => {
      density.value = next;
      if (densityText) setDensityText(next);
    },
  };
}

interface ColumnPickerProps {
  columns: readonly string[];
  onToggle: (id: string) => void;
  onDensity: (density: Density) => void;
}

function ColumnPicker({ columns, onToggle, onDensity }: ColumnPickerProps): JSX.Element {
  return (
    <Menu summary="Columns">
      {OPTIONAL.map(([id, title]) => (
        <label key={id} class="check-line">
          <input type="checkbox" checked={columns.includes(id)} onChange={() => onToggle(id)} />
          {title}
        </label>
      ))}
      <fieldset class="jobs-density">
        <legend class="small faint">Rows</legend>
        {(["compact", "roomy"] as const).map((one) => (
          <label key={one} class="check-line">
            <input
              type="radio"
              name="job-density"
              checked={densityShown.value === one}
              onChange={() => onDensity(one)}
            />
            {one}
          </label>
        ))}
      </fieldset>
    </Menu>
  );
}

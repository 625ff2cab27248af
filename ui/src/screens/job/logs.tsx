/** What the tasks wrote: a million lines by number, with levels, search, follow and links to lines. */
import { useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  api,
  asApiError,
  clockText,
  counted,
  countText,
  getText,
  type Model,
  momentText,
  ok,
  persisted,
  place,
  setQuery,
  toast,
  toastError,
  useKeys,
  useQuery,
  useQueryList,
} from "~/core";
import { Button, Chip, Empty, ErrorBox, Loading } from "~/widgets";
import { plainText } from "./ansi";
import { type Level, type Line, LogStore } from "./log-store";
import { LogText } from "./log-text";
import { heightOf, isScaled, lastTop, moved, nextMatch, pagesFor, ROW_PX, scrollAt, topAt, topFor } from "./log-window";
import type { JobStore } from "./store";

const LEVELS: readonly [Level, string][] = [
  ["error", "bad"],
  ["warning", "warning"],
  ["info", "active"],
  ["debug", "off"],
];
const FOLLOW_MS = 1_000;
const wraps = persisted<boolean>("log-wrap", false);
const stamps = persisted<boolean>("log-times", true);

function rangeOf(text: string | null): [number, number] | undefined {
  const parts = /^(\d+)(?:-(\d+))?$/.exec(text ?? "");
  if (!parts) return undefined;
  const from = Number(parts[1]) - 1;
  return [from, parts[2] ? Math.max(from, Number(parts[2]) - 1) : from];
}

export function Logs({ store }: { store: JobStore }): JSX.Element {
  const [node, setNode] = useQuery("node", "");
  const [levels, setLevels] = useQueryList("level");
  const key = `${store.jobId} ${node} ${levels.join()}`;
  const logs = useMemo(() => new LogStore({ jobId: store.jobId, node, levels: levels as Level[] }), [key]);
  const names = store.order.value;
  return (
    <section class="logs" aria-label="Logs">
      <LogLines
        key={key}
        logs={logs}
        store={store}
        tools={
          <>
            <select
              class="input"
              aria-label="Logs of"
              value={node}
              onChange={(event) => setNode(event.currentTarget.value || null)}
            >
              <option value="">All nodes, by time</option>
              {node && !names.includes(node) ? <option value={node}>{node}</option> : null}
              {names.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
            <span class="chips" role="group" aria-label="Levels">
              {LEVELS.map(([level, tone]) => (
                <Chip
                  key={level}
                  tone={tone as "bad"}
                  chosen={levels.includes(level)}
                  onToggle={() =>
                    setLevels(levels.includes(level) ? levels.filter((one) => one !== level) : [...levels, level])
                  }
                >
                  {level}
                </Chip>
              ))}
            </span>
          </>
        }
      />
    </section>
  );
}

function LogLines({ logs, store, tools }: { logs: LogStore; store: JobStore; tools: JSX.Element }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [viewPx, setViewPx] = useState(480);
  const [follows, setFollows] = useState(rangeOf(place.peek().query.get("line")) === undefined);
  const [searched, setSearched] = useQuery("find", "");
  const [matches, setMatches] = useState<Model<"LogMatches">>();
  const total = logs.total.value;
  const range = rangeOf(place.value.query.get("line"));
  const at = useRef(range?.[0] ?? -1);
  const own = useRef(-1);
  const box = { total: total ?? 0, viewPx };
  void logs.arrived.value;

  const go = (next: number) => {
    setTop(next);
    own.current = Math.round(scrollAt(box, next));
    if (scroller.current) scroller.current.scrollTop = own.current;
  };
  const goToLine = (line: number) => {
    setFollows(false);
    at.current = line;
    go(topFor(box, top, line));
  };
  useEffect(() => {
    void logs.readEnd();
  }, [logs]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => setViewPx(element.clientHeight));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [total === undefined]);
  // At first: the line of the address, or the end.
  const placed = useRef(false);
  useLayoutEffect(() => {
    if (total === undefined || viewPx === 0) return;
    if (!placed.current) {
      placed.current = true;
      if (range) goToLine(Math.min(range[0], total - 1));
      else go(lastTop(box));
    } else if (follows) go(lastTop(box));
  }, [total, viewPx, follows]);
  useEffect(() => {
    logs.want(pagesFor(top, viewPx / ROW_PX + 2, total ?? 0, 500));
  }, [top, viewPx, total, logs]);
  const isOpen = store.isOpen.value;
  useEffect(() => {
    if (!isOpen) return;
    const timer = window.setInterval(() => {
      if (!document.hidden) void logs.follow();
    }, FOLLOW_MS);
    return () => window.clearInterval(timer);
  }, [isOpen, logs]);
  useSignalEffect(() => {
    // What was written last arrives with the end of the job.
    if (store.news.value > 0) void logs.follow();
  });
  useEffect(() => {
    if (!searched) {
      setMatches(undefined);
      return;
    }
    const control = new AbortController();
    const timer = window.setTimeout(async () => {
      const { jobId, node, levels } = logs.view;
      const query = {
        text: searched,
        ...(node ? { node_id: node } : {}),
        ...(levels.length ? { level: [...levels] } : {}),
      };
      try {
        const params = { path: { job_id: jobId }, query };
        setMatches(await ok(api.GET("/api/v1/jobs/{job_id}/logs/matches", { params, signal: control.signal })));
      } catch (error) {
        if (!control.signal.aborted) toastError(error);
      }
    }, 250);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
  }, [searched, logs, isOpen]);
  const step = (direction: 1 | -1) => {
    const next = nextMatch(matches?.places ?? [], at.current, direction);
    if (next !== undefined) goToLine(next);
  };
  useEffect(() => {
    if (matches?.places.length && at.current < 0) step(1);
  }, [matches]);

  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0) setFollows(false);
      if (!isScaled(box) || event.ctrlKey) return;
      event.preventDefault();
      go(moved(box, top, event.deltaMode === 1 ? event.deltaY * ROW_PX : event.deltaY));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  const onKey = (event: KeyboardEvent) => {
    const page = viewPx - 2 * ROW_PX;
    const steps: Record<string, number> = { PageDown: page, PageUp: -page, ArrowDown: ROW_PX, ArrowUp: -ROW_PX };
    const px = steps[event.key];
    if (px !== undefined) {
      if (px < 0) setFollows(false);
      go(moved(box, top, px));
    } else if (event.key === "Home") {
      setFollows(false);
      go(0);
    } else if (event.key === "End") go(lastTop(box));
    else if ((event.ctrlKey || event.metaKey) && event.key === "c" && range && !window.getSelection()?.toString())
      void copyRange();
    else return;
    event.preventDefault();
  };
  const copyRange = async () => {
    if (!range) return;
    const texts = await logs.range(range[0], range[1]);
    await navigator.clipboard.writeText(texts.map(plainText).join("\n"));
    toast({ kind: "done", text: `${counted(texts.length, "line")} copied.` });
  };
  const choose = (line: Line, extend: boolean) => {
    const from = extend && range ? Math.min(range[0], line.place) : line.place;
    const to = extend && range ? Math.max(range[1], line.place) : line.place;
    setFollows(false);
    at.current = line.place;
    setQuery({ line: from === to ? String(from + 1) : `${from + 1}-${to + 1}` });
  };
  const find = useRef<HTMLInputElement>(null);
  useKeys(
    () => [
      {
        keys: "w",
        label: "Wrap long lines",
        group: "Logs",
        run: () => {
          wraps.value = !wraps.value;
        },
      },
      { keys: ".", label: "Follow the end", group: "Logs", run: () => setFollows(!follows) },
      { keys: "s", label: "Search the logs", group: "Logs", run: () => find.current?.focus() },
      { keys: "n", label: "Next match", group: "Logs", run: () => step(1) },
      { keys: "Shift+N", label: "Match before", group: "Logs", run: () => step(-1) },
    ],
    [follows, matches],
  );
  const rows: JSX.Element[] = [];
  const first = Math.floor(top);
  const count = Math.ceil(viewPx / ROW_PX) + 1;
  for (let index = first; index < Math.min(total ?? 0, first + count); index++) {
    const line = logs.line(index);
    const isChosen = range !== undefined && index >= range[0] && index <= range[1];
    rows.push(
      <LogRow
        key={index}
        line={line}
        index={index}
        find={searched}
        isChosen={isChosen}
        withNode={!logs.view.node}
        onChoose={choose}
        isMatch={at.current === index}
      />,
    );
  }
  const position = matches ? matches.places.indexOf(at.current) + 1 : 0;
  return (
    <>
      <div class="log-tools">
        {tools}
        <span class="log-search">
          <input
            ref={find}
            type="search"
            class="input"
            placeholder="Search"
            aria-label="Search the logs"
            value={searched}
            onInput={(event) => {
              at.current = -1;
              setSearched(event.currentTarget.value || null);
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
            }}
          />
          {matches ? (
            <>
              <span class="small num log-count" role="status">
                {matches.total === 0
                  ? "No match"
                  : `${position ? `${countText(position)} of ` : ""}${counted(matches.total, "match", "matches")}${matches.is_complete ? "" : " or more"}`}
              </span>
              <Button look="quiet" icon="up" label="Match before" onClick={() => step(-1)} />
              <Button look="quiet" icon="down" label="Next match" onClick={() => step(1)} />
            </>
          ) : null}
        </span>
        <span class="spacer" />
        <Button look="quiet" pressed={follows} onClick={() => setFollows(!follows)}>
          Follow
        </Button>
        <Button
          look="quiet"
          pressed={wraps.value}
          onClick={() => {
            wraps.value = !wraps.value;
          }}
        >
          Wrap
        </Button>
        <Button
          look="quiet"
          pressed={stamps.value}
          onClick={() => {
            stamps.value = !stamps.value;
          }}
        >
          Times
        </Button>
        {range ? (
          <Button look="quiet" icon="copy" onClick={() => void copyRange()}>
            {range[0] === range[1] ? "Copy the line" : `Copy ${counted(range[1] - range[0] + 1, "line")}`}
          </Button>
        ) : null}
        <Button look="quiet" icon="download" onClick={() => void download(logs)}>
          Download
        </Button>
      </div>
      {logs.error.value && total === undefined ? (
        <ErrorBox error={logs.error.value} what="the logs" retry={() => void logs.readEnd()} />
      ) : null}
      {total === undefined && !logs.error.value ? <Loading what="the logs" rows={8} /> : null}
      {total === 0 ? (
        <Empty
          title={
            logs.view.levels.length
              ? "No line of these levels"
              : isOpen
                ? "Nothing was written yet"
                : "Nothing was written"
          }
          icon="log"
        >
          {logs.view.levels.length
            ? "Choose other levels to see the rest."
            : "What handlers print or log appears here as it is written. Nodes without a task, such as conditions, write nothing."}
        </Empty>
      ) : null}
      {total ? (
        <div
          class={`log-scroll ${wraps.value ? "log-wraps" : ""}`}
          ref={scroller}
          role="log"
          aria-live="off"
          aria-label={`${countText(total)} lines`}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keyboard
          tabIndex={0}
          onKeyDown={onKey}
          onCopy={(event) => {
            const text = window.getSelection()?.toString();
            if (text) {
              // Without the numbers and names beside the lines.
              event.clipboardData?.setData("text/plain", selectedText());
              event.preventDefault();
            }
          }}
          onScroll={(event) => {
            const px = event.currentTarget.scrollTop;
            if (Math.abs(px - own.current) < 2) return;
            own.current = px;
            if (topAt(box, px) < top) setFollows(false);
            setTop(topAt(box, px));
          }}
        >
          <div class="log-height" style={{ height: `${heightOf(box)}px` }}>
            <div class="log-view" style={{ height: `${viewPx}px` }}>
              <div style={{ transform: `translateY(${-(top - first) * ROW_PX}px)` }}>{rows}</div>
            </div>
          </div>
        </div>
      ) : null}
      {total ? (
        <p class="log-foot small faint">
          {counted(total, "line")}
          {isOpen ? (follows ? " · following" : " · paused") : ""}
          {!follows && isOpen ? (
            <Button look="quiet" icon="down" onClick={() => setFollows(true)}>
              Jump to the newest
            </Button>
          ) : null}
        </p>
      ) : null}
    </>
  );
}

/** What is selected in rows, text only. */
function selectedText(): string {
  const selection = window.getSelection();
  if (!selection || selection.rangeCount === 0) return "";
  const part = selection.getRangeAt(0).cloneContents();
  const lines = [...part.querySelectorAll(".log-text")];
  return lines.length > 0 ? lines.map((line) => line.textContent ?? "").join("\n") : selection.toString();
}

interface LogRowProps {
  line: Line | undefined;
  index: number;
  find: string;
  isChosen: boolean;
  isMatch: boolean;
  withNode: boolean;
  onChoose: (line: Line, extend: boolean) => void;
}

export function LogRow({ line, index, find, isChosen, isMatch, withNode, onChoose }: LogRowProps): JSX.Element {
  if (!line) return <div class="log-row log-missing">{countText(index + 1)}</div>;
  return (
    <div
      class={`log-row log-${line.level} ${isChosen ? "is-chosen" : ""} ${isMatch ? "is-match" : ""}`}
      data-line={index + 1}
    >
      <button
        type="button"
        class="log-number"
        tabIndex={-1}
        title="Link to this line; with Shift, to a range"
        onClick={(event) => onChoose(line, event.shiftKey)}
      >
        {index + 1}
      </button>
      {stamps.value ? (
        <span class="log-time" title={momentText(line.at)}>
          {clockText(line.at)}
        </span>
      ) : null}
      {withNode ? (
        <span class="log-node" title={line.node}>
          {line.node}
        </span>
      ) : null}
      <LogText text={line.text} find={find} />
      {line.isCut ? <span class="log-cut">cut here: 1 MB is kept per attempt</span> : null}
    </div>
  );
}

/** All of it as a file, page by page. */
async function download(logs: LogStore): Promise<void> {
  const { jobId, node } = logs.view;
  const base = node
    ? `/api/v1/jobs/${encodeURIComponent(jobId)}/nodes/${encodeURIComponent(node)}/logs`
    : `/api/v1/jobs/${encodeURIComponent(jobId)}/logs`;
  const texts: string[] = [];
  let cursor: string | null = null;
  try {
    do {
      const page: Model<"LogPage"> = JSON.parse(
        await getText(cursor ? `${base}?cursor=${encodeURIComponent(cursor)}` : base),
      );
      for (const chunk of page.chunks)
        texts.push(node ? chunk.content : chunk.content.replace(/^(?=.)/gm, `${chunk.node_id} | `));
      cursor = page.next_cursor ?? null;
    } while (cursor);
  } catch (error) {
    toastError(asApiError(error));
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(texts, { type: "text/plain" }));
  link.download = `${jobId}${node ? `-${node}` : ""}.log`;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Views that somebody has saved: a filter, columns and density under a name. Each is a link, so it can be passed on. */
import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { href, Link, me, persisted, place, toast, useKeys } from "~/core";
import { Button, CopyButton, confirm, Menu } from "~/widgets";
import { WORDS } from "./query";

export interface SavedView {
  name: string;
  /** What stands behind `/jobs?`. */
  query: string;
}

const MOST = 50;
const LONGEST_NAME = 60;

const isView = (value: unknown): value is SavedView => {
  const view = value as Partial<SavedView> | null;
  return typeof view?.name === "string" && view.name !== "" && typeof view.query === "string";
};
const isViews = (value: unknown): value is SavedView[] => Array.isArray(value) && value.every(isView);
const kept = new Map<string, Signal<SavedView[]>>();

/** Of who is signed in: several people may share a browser. */
function viewsOf(): Signal<SavedView[]> {
  const owner = `${me.value?.namespace ?? ""}/${me.value?.name ?? ""}`;
  const known = kept.get(owner) ?? persisted<SavedView[]>(`job-views.${owner}`, [], isViews);
  kept.set(owner, known);
  return known;
}

/** In one order, so that the same view is recognised however its parts were chosen. */
function ordered(query: URLSearchParams): string {
  const sorted = new URLSearchParams(query);
  sorted.sort();
  return sorted.toString();
}

export function Views({ present }: { present: () => Record<string, string> }): JSX.Element {
  const views = viewsOf();
  const menu = useRef<HTMLDetailsElement>(null);
  const [name, setName] = useState("");
  const [renamed, setRenamed] = useState<string>();
  const here = ordered(place.value.query);
  const chosen = views.value.find((view) => ordered(new URLSearchParams(view.query)) === here);
  useKeys(
    () => [
      {
        keys: "v",
        label: "Saved views",
        group: "List",
        run: () => {
          if (!menu.current) return;
          menu.current.open = true;
          menu.current.querySelector<HTMLElement>(".menu-body a, .menu-body input")?.focus();
        },
      },
    ],
    [],
  );
  const clean = name.trim().slice(0, LONGEST_NAME);
  const replaced = views.value.find((view) => view.name === clean);
  const save = (event: Event) => {
    event.preventDefault();
    if (!clean) return;
    const view = { name: clean, query: ordered(new URLSearchParams(present())) };
    views.value = [...views.value.filter((one) => one !== replaced), view].slice(-MOST);
    setName("");
    toast({ kind: "done", text: `The view “${clean}” is ${replaced ? "replaced" : "saved"} in this browser.` });
  };
  const rename = (view: SavedView, next: string) => {
    const text = next.trim().slice(0, LONGEST_NAME);
    setRenamed(undefined);
    if (!text || text === view.name) return;
    views.value = views.value
      .filter((one) => one === view || one.name !== text)
      .map((one) => (one === view ? { ...one, name: text } : one));
  };
  const forget = (view: SavedView) =>
    confirm({
      title: `Delete the view “${view.name}”?`,
      preview: <p>Jobs stay as they are, and links to the view that were passed on keep working.</p>,
      action: "Delete the view",
      danger: true,
      run: async () => {
        views.value = views.value.filter((one) => one !== view);
      },
    });
  return (
    <Menu class="jobs-views" menu={menu} summary={chosen ? <>View: {chosen.name}</> : "Views"}>
      {views.value.length === 0 ? (
        <p class="small soft">
          No view is saved yet. A view keeps the filter, the columns and the height of rows under a name.
        </p>
      ) : (
        <ul aria-label="Saved views">
          {views.value.map((view) => (
            <li key={view.name} class="row">
              {renamed === view.name ? (
                <Rename view={view} onDone={(next) => rename(view, next)} onStop={() => setRenamed(undefined)} />
              ) : (
                <>
                  <Link
                    class="jobs-view cut"
                    to={view.query ? `/jobs?${view.query}` : "/jobs"}
                    aria-current={view === chosen ? "true" : undefined}
                    title={new URLSearchParams(view.query).get("q") ?? "All jobs"}
                  >
                    {view.name}
                  </Link>
                  <CopyButton
                    label={`Copy the link of ${view.name}`}
                    words={false}
                    text={() => window.location.origin + href(view.query ? `/jobs?${view.query}` : "/jobs")}
                  />
                  <Button
                    look="quiet"
                    icon="edit"
                    label={`Rename ${view.name}`}
                    onClick={() => setRenamed(view.name)}
                  />
                  <Button look="quiet" icon="trash" label={`Delete ${view.name}`} onClick={() => forget(view)} />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      <form class="row" onSubmit={save}>
        <input
          aria-label="Name of the view"
          placeholder="Save what is shown as…"
          maxLength={LONGEST_NAME}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" disabled={!clean}>
          {replaced ? "Replace" : "Save"}
        </Button>
      </form>
      <details class="fold">
        <summary>Words of the filter</summary>
        <dl class="jobs-words">
          {Object.entries(WORDS).map(([word, meaning]) => (
            <div key={word}>
              <dt>
                <code>{word}:</code>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
      </details>
    </Menu>
  );
}

interface RenameProps {
  view: SavedView;
  onDone: (name: string) => void;
  onStop: () => void;
}

function Rename({ view, onDone, onStop }: RenameProps): JSX.Element {
  const [text, setText] = useState(view.name);
  return (
    <form
      class="row jobs-rename"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(text);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        event.preventDefault();
        onStop();
      }}
    >
      <input
        aria-label={`New name of ${view.name}`}
        maxLength={LONGEST_NAME}
        value={text}
        ref={(element) => element?.focus()}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button type="submit">Rename</Button>
    </form>
  );
}

/** Search for anything: screens and actions at once, and jobs, nodes, tasks, requests, assets and workflows from the server. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Model, ok } from "../core/api";
import { keyBindings } from "../core/keys";
import { navigate, to } from "../core/router";
import { screens } from "../screens";
import { Icon, type IconName } from "../widgets/icon";
import { Status } from "../widgets/status";
import { isOffered } from "./shell";

type Hit = Model<"SearchHit">;

interface Choice {
  id: string;
  icon: IconName;
  title: string;
  note: string;
  status?: string | undefined;
  /** Where it leads, or what it does. */
  to: string | (() => void);
}

const opened = signal<string | undefined>(undefined);
export const SEARCH_LABEL = "Search for anything";

export function openPalette(text = ""): void {
  opened.value = text;
}

const ICONS: Record<Hit["kind"], IconName> = {
  job: "jobs",
  node: "graph",
  task: "task",
  request: "inbox",
  asset: "asset",
  workflow: "workflow",
};

/** Where a hit is shown. */
export function placeOf(hit: Hit): string {
  switch (hit.kind) {
    case "workflow":
      return to`/workflows/${hit.id}`;
    case "asset":
      return to`/assets/${hit.id}`;
    case "node":
    case "task":
      if (!hit.job_id) return `${to`/workflows/${hit.workflow_id ?? ""}`}?node=${encodeURIComponent(hit.id)}`;
      return hit.node_id
        ? `${to`/jobs/${hit.job_id ?? ""}`}?node=${encodeURIComponent(hit.node_id)}`
        : to`/jobs/${hit.job_id ?? ""}`;
    case "request":
      return hit.job_id ? to`/jobs/${hit.job_id}` : `/jobs?q=${encodeURIComponent(hit.id)}`;
    default:
      return to`/jobs/${hit.id}`;
  }
}

function screenChoices(text: string): Choice[] {
  const words = text.toLowerCase();
  return screens
    .filter((screen) => screen.nav && isOffered(screen) && screen.title.toLowerCase().includes(words))
    .map((screen) => ({
      id: `screen-${screen.name}`,
      icon: screen.nav?.icon ?? "right",
      title: screen.title,
      note: screen.nav?.key ? `screen · g ${screen.nav.key}` : "screen",
      to: typeof screen.path === "string" ? screen.path : (screen.path[0] ?? "/"),
    }));
}

/** What the keys of the open screen do. Those that act on a row of a list need the list, not a name. */
const ELSEWHERE: ReadonlySet<string> = new Set(["Go to", "List"]);

function actionChoices(text: string): Choice[] {
  const words = text.toLowerCase();
  if (words.length < 2) return [];
  const seen = new Set<string>();
  return keyBindings.peek().flatMap((binding) => {
    const { label, group, keys, run } = binding;
    if (ELSEWHERE.has(group) || keys === "Escape" || label === SEARCH_LABEL || seen.has(label)) return [];
    if (!label.toLowerCase().includes(words)) return [];
    seen.add(label);
    return [{ id: `action-${keys}-${label}`, icon: "play" as const, title: label, note: `action · ${keys}`, to: run }];
  });
}

export function Palette(): JSX.Element | null {
  return opened.value === undefined ? null : <PaletteDialog initial={opened.value} />;
}

function PaletteDialog({ initial }: { initial: string }): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState(initial);
  const [hits, setHits] = useState<Choice[]>([]);
  const [searching, setSearching] = useState(false);
  const [active, setActive] = useState(0);
  const close = () => (opened.value = undefined);

  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  useEffect(() => {
    const query = text.trim();
    setActive(0);
    if (query.length < 2) {
      setHits([]);
      return;
    }
    const control = new AbortController();
    const timer = window.setTimeout(async () => {
      setSearching(true);
      try {
        const answer = await ok(api.GET("/api/v1/search", { params: { query: { q: query } }, signal: control.signal }));
        setHits(
          answer.hits.map((hit) => ({
            id: `${hit.kind}-${hit.id}-${hit.node_id ?? ""}`,
            icon: ICONS[hit.kind],
            title: hit.title,
            note: `${hit.kind} · ${hit.note}`,
            status: hit.status ?? undefined,
            to: placeOf(hit),
          })),
        );
      } catch {
        if (!control.signal.aborted) setHits([]);
      }
      if (!control.signal.aborted) setSearching(false);
    }, 120);
    return () => {
      control.abort();
      window.clearTimeout(timer);
    };
  }, [text]);

  const choices = [...screenChoices(text.trim()), ...actionChoices(text.trim()), ...hits];
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    const { to: target } = choice;
    if (typeof target === "string") navigate(target);
    // Once this dialog is gone: an action may open one of its own, or move the focus.
    else window.setTimeout(target, 0);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setActive((active + 1) % Math.max(1, choices.length));
    else if (event.key === "ArrowUp") setActive((active - 1 + choices.length) % Math.max(1, choices.length));
    else if (event.key === "Enter") choose(choices[active]);
    else return;
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the key is Escape
    <dialog
      ref={element}
      class="palette"
      aria-label="Search"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => event.target === element.current && close()}
    >
      <div class="palette-line">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={choices[active] ? `choice-${active}` : undefined}
          aria-label="Search for an id, a name, a screen or an action"
          placeholder="An id of a job, node, task, request or asset; a workflow; a screen; an action"
          value={text}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKey}
        />
        {searching ? <span class="spinner" /> : null}
      </div>
      <div class="palette-list" role="listbox" id="palette-list" aria-label="Results">
        {choices.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field above
          <div
            key={choice.id}
            id={`choice-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === active}
            class="palette-choice"
            onClick={() => choose(choice)}
            onPointerMove={() => setActive(index)}
          >
            <Icon name={choice.icon} />
            <span class="palette-title">{choice.title}</span>
            {choice.status ? <Status status={choice.status} look="plain" /> : null}
            <span class="faint">{choice.note}</span>
          </div>
        ))}
        {choices.length === 0 && !searching ? (
          <p class="palette-none">
            {text.trim().length < 2 ? "Type two characters or more." : `Nothing is called “${text.trim()}”.`}
          </p>
        ) : null}
      </div>
    </dialog>
  );
}

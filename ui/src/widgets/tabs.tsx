/** Tabs whose choice is in the address. */
import type { ComponentChildren, JSX } from "preact";
import { useRef } from "preact/hooks";
import { useQuery } from "../core/router";

export interface Tab {
  id: string;
  label: string;
  /** A count beside the label. */
  count?: number | string | undefined;
  panel: () => ComponentChildren;
}

/** `<Tabs label="Panes of the job" tabs={[…]} />`; `?tab=` names the one that is shown, the first by default. */
export function Tabs({
  tabs,
  label,
  param = "tab",
}: {
  tabs: readonly Tab[];
  label: string;
  param?: string;
}): JSX.Element {
  const [chosen, choose] = useQuery(param, tabs[0]?.id ?? "");
  const list = useRef<HTMLDivElement>(null);
  const shown = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !shown) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(shown) + step + tabs.length) % tabs.length];
    if (!next) return;
    choose(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${param}-${next.id}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`tab-${param}-${tab.id}`}
            aria-controls={`panel-${param}`}
            aria-selected={tab === shown}
            tabIndex={tab === shown ? 0 : -1}
            class="tab"
            onClick={() => choose(tab.id, { replace: false })}
          >
            {tab.label}
            {tab.count === undefined ? null : <span class="count">{tab.count}</span>}
          </button>
        ))}
      </div>
      {shown ? (
        <div
          class="tab-panel"
          role="tabpanel"
          id={`panel-${param}`}
          aria-labelledby={`tab-${param}-${shown.id}`}
          key={shown.id}
        >
          {shown.panel()}
        </div>
      ) : null}
    </>
  );
}

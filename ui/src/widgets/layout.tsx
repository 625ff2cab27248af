/** The frame of a screen: its heading, its sections, its figures. */
import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";
import { Link } from "../core/router";

interface PageProps {
  title: ComponentChildren;
  /** Above the title: where this belongs, as links. */
  crumbs?: readonly { label: string; to: string }[];
  /** Below the title: state, reason, key facts. */
  lead?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  /** Uses the whole width, for tables, graphs and maps. */
  wide?: boolean;
}

export function Page({ title, crumbs, lead, actions, children, wide = false }: PageProps): JSX.Element {
  return (
    <div class={`page ${wide ? "page-wide" : ""}`}>
      <header class="page-head">
        <div class="page-titles">
          {crumbs ? (
            <nav class="crumbs" aria-label="Breadcrumb">
              {crumbs.map((crumb) => (
                <Link key={crumb.to} to={crumb.to}>
                  {crumb.label}
                </Link>
              ))}
            </nav>
          ) : null}
          <h1>{title}</h1>
          {lead ? <div class="page-lead">{lead}</div> : null}
        </div>
        {actions ? <div class="page-actions">{actions}</div> : null}
      </header>
      {children}
    </div>
  );
}

interface SectionProps {
  title: ComponentChildren;
  /** Beside the title, on the right. */
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
  /** `flush` lets a table reach the edges of the card. */
  flush?: boolean;
}

/** A card with a heading. */
export function Section({ title, aside, children, class: className, flush = false }: SectionProps): JSX.Element {
  const id = useId();
  return (
    <section class={`card ${flush ? "card-flush" : ""} ${className ?? ""}`} aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        {aside ? <div class="card-aside">{aside}</div> : null}
      </header>
      <div class="card-body">{children}</div>
    </section>
  );
}

/** A figure with its name; with `to`, a link to the list that reproduces it. */
export function Stat({
  label,
  value,
  note,
  to,
}: {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  to?: string;
}): JSX.Element {
  const body = (
    <>
      <span class="stat-label">{label}</span>
      <span class="stat-value num">{value}</span>
      {note ? <span class="stat-note">{note}</span> : null}
    </>
  );
  return to ? (
    <Link class="stat" to={to}>
      {body}
    </Link>
  ) : (
    <div class="stat">{body}</div>
  );
}

/** Names and values: `<Facts items={[["Workflow", <Link …/>], …]} />`; null values are left out. */
export function Facts({ items }: { items: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {items
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

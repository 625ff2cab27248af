/** The address is the state of the view: paths name screens, the query holds filters, tabs and selections. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";

export const BASE = "/ui";

export interface Place {
  /** Without `/ui`, beginning with a slash and ending without one: `/jobs/0198…`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly hash: string;
}

export interface Navigation {
  /** Take the place of the current entry of the history, as changes of filters while typing do. */
  replace?: boolean;
  /** Leave the page where it is scrolled to. */
  keepScroll?: boolean;
}

const current = signal<Place>(readPlace());

/** Where we are. Reading `place.value` in a component draws it again when the address changes. */
export const place: ReadonlySignal<Place> = current;
export const path: ReadonlySignal<string> = computed(() => current.value.path);

function readPlace(): Place {
  const { pathname, search, hash } = window.location;
  const below = pathname.startsWith(BASE) ? pathname.slice(BASE.length) : pathname;
  return { path: below.replace(/\/+$/, "") || "/", query: new URLSearchParams(search), hash: hash.slice(1) };
}

/** The address for an `href`: `href("/jobs?q=x")` is `/ui/jobs?q=x`. */
export function href(to: string): string {
  return to === "/" ? BASE : BASE + to;
}

/** Go to a place below `/ui`, given as `/jobs?status=failed`. */
export function navigate(to: string, { replace = false, keepScroll = false }: Navigation = {}): void {
  const address = href(to);
  if (address !== window.location.pathname + window.location.search + window.location.hash) {
    window.history[replace ? "replaceState" : "pushState"](null, "", address);
  }
  current.value = readPlace();
  if (!replace && !keepScroll) window.scrollTo(0, 0);
}

window.addEventListener("popstate", () => {
  current.value = readPlace();
});

/** Change parts of the query and leave the rest: `setQuery({ tab: "logs", line: null })`; null removes. */
export function setQuery(
  changes: Record<string, string | readonly string[] | null | undefined>,
  options: Navigation = { replace: true },
): void {
  const query = new URLSearchParams(current.peek().query);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    if (Array.isArray(value)) for (const one of value) query.append(name, one);
    else if (value) query.set(name, String(value));
  }
  const text = query.toString();
  navigate(current.peek().path + (text ? `?${text}` : ""), { keepScroll: true, ...options });
}

/** One value of the query and its setter, for components: `const [tab, setTab] = useQuery("tab", "graph")`.
 * A value equal to `fallback` is left out of the address. Pass `{ replace: false }` to make an entry in the history. */
export function useQuery(name: string, fallback = ""): [string, (value: string | null, options?: Navigation) => void] {
  const value = useMemo(() => computed(() => current.value.query.get(name) ?? fallback), [name, fallback]).value;
  return [value, (next, options) => setQuery({ [name]: next === fallback ? null : next }, options)];
}

/** All values of a repeated parameter: `?status=failed&status=running`. */
export function useQueryList(name: string): [string[], (values: readonly string[], options?: Navigation) => void] {
  const text = useMemo(() => computed(() => JSON.stringify(current.value.query.getAll(name))), [name]).value;
  return [useMemo(() => JSON.parse(text) as string[], [text]), (next, options) => setQuery({ [name]: next }, options)];
}

/** `/jobs/:job_id` against `/jobs/01`: `{ job_id: "01" }`, or null. A last part `*` takes the rest of the path. */
export function matchPath(pattern: string, actual: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const parts = actual.split("/");
  const takesRest = wanted.at(-1) === "*";
  if (takesRest ? parts.length < wanted.length : parts.length !== wanted.length) return null;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    if (takesRest && index === wanted.length - 1) {
      params.rest = parts.slice(index).map(decode).join("/");
    } else if (part.startsWith(":")) {
      params[part.slice(1)] = decode(parts[index] ?? "");
    } else if (part !== parts[index]) return null;
  }
  return params;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A path with values in it, each encoded: ``to`/jobs/${id}/nodes/${node}` ``. */
export function to(texts: TemplateStringsArray, ...values: (string | number)[]): string {
  return texts.reduce((text, part, index) => text + encodeURIComponent(String(values[index - 1])) + part);
}

export interface LinkProps {
  /** Below `/ui`: `/jobs?q=x`. */
  to: string;
  children?: ComponentChildren;
  class?: string;
  title?: string | undefined;
  replace?: boolean;
  onClick?: (event: MouseEvent) => void;
  tabIndex?: number;
  "aria-label"?: string;
  "aria-current"?: "page" | "true" | undefined;
}

/** A link within the interface. New tabs, middle clicks and modifiers work as in any page. */
export function Link({ to: target, replace = false, onClick, ...rest }: LinkProps): JSX.Element {
  return (
    <a
      {...rest}
      href={href(target)}
      onClick={(event) => {
        onClick?.(event);
        if (event.defaultPrevented || event.button !== 0) return;
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        navigate(target, { replace });
      }}
    />
  );
}

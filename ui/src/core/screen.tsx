/** What a screen is: a path, a title, a place in the navigation, and a component that is loaded when it is needed. */
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { IconName } from "../widgets/icon";
import { ErrorBox, Loading } from "../widgets/states";
import { asApiError } from "./api";
import { startLive } from "./live";
import type { Scope } from "./session";

export interface ScreenProps {
  /** The parts of the path that the pattern names: `/jobs/:job_id` gives `params.job_id`. */
  params: Record<string, string>;
}

export interface NavItem {
  label: string;
  icon: IconName;
  section: "work" | "content" | "platform";
  /** Within the section, from the top. */
  order: number;
  /** `g` and then this letter goes there. */
  key?: string;
}

export interface Screen {
  name: string;
  /** One pattern or several; see `matchPath`. */
  path: string | readonly string[];
  /** Of the page, in the browser's tab; a screen may set a better one with `useTitle`. */
  title: string;
  nav?: NavItem;
  /** Offered in the navigation and the palette only to those who have one of these. Default: read. */
  scopes?: readonly Scope[];
  component: ComponentType<ScreenProps>;
}

export function defineScreen(screen: Screen): Screen {
  return screen;
}

const RELOADED = "rmhdag.reloaded";

/** A component in a chunk of its own: `lazy(() => import("./jobs"))`; the module exports it as `default`. */
export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let Loaded: ComponentType<P> | undefined;
  return function Lazy(props: P): JSX.Element {
    const [, redraw] = useState(0);
    const [error, setError] = useState<unknown>();
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (module) => {
          Loaded = module.default;
          sessionStorage.removeItem(RELOADED);
          redraw(1);
        },
        (problem: unknown) => {
          // After an upgrade the old page asks for files that are gone: the new page knows the new ones.
          if (sessionStorage.getItem(RELOADED) === null) {
            sessionStorage.setItem(RELOADED, "yes");
            window.location.reload();
          } else setError(problem);
        },
      );
    }, []);
    useEffect(() => {
      if (Loaded) startLive();
    });
    if (Loaded) return <Loaded {...props} />;
    if (error) return <ErrorBox error={asApiError(error)} what="this screen" retry={() => window.location.reload()} />;
    return <Loading />;
  };
}

/** The title of the browser's tab: `useTitle("raster_processing · failed")`. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · rmhdag`;
  }, [title]);
}

/** The page as a whole: sign-in, or the frame with the screen of the address. */
import { computed } from "@preact/signals";
import { Component, type ComponentChildren, type JSX } from "preact";
import { ApiError } from "../core/api";
import { matchPath, path, place } from "../core/router";
import type { Screen } from "../core/screen";
import { checkSession, sessionState } from "../core/session";
import { screens } from "../screens";
import { ErrorBox, Loading } from "../widgets/states";
import { NotFound } from "./not-found";
import { Shell } from "./shell";
import { SignIn } from "./sign-in";

interface Match {
  screen: Screen;
  params: Record<string, string>;
}

/** A fixed part of a path beats a parameter: `/jobs/new` is not the job `new`. */
const match = computed<Match | undefined>(() => {
  const matches: (Match & { names: number })[] = [];
  for (const screen of screens) {
    for (const pattern of typeof screen.path === "string" ? [screen.path] : screen.path) {
      const params = matchPath(pattern, path.value);
      if (params) matches.push({ screen, params, names: Object.keys(params).length });
    }
  }
  return matches.sort((a, b) => a.names - b.names)[0];
});

/** What breaks in a screen does not take the navigation with it. */
class Guard extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {};

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override componentDidCatch(error: Error): void {
    console.error(error);
  }

  override render(): ComponentChildren {
    if (!this.state.error) return this.props.children;
    const error = new ApiError(-1, {
      code: "broken_screen",
      detail: `the screen could not be drawn: ${this.state.error.message}`,
      remedy: "Reload the page; if it happens again, report the text.",
    });
    return (
      <div class="page">
        <ErrorBox error={error} what="this screen" retry={() => window.location.reload()} />
      </div>
    );
  }
}

export function Root(): JSX.Element {
  switch (sessionState.value) {
    case "checking":
      return <div class="boot" aria-busy="true" />;
    case "signed-out":
      return <SignIn />;
    case "unreachable": {
      const error = new ApiError(0, {
        code: "unreachable",
        detail: "the server does not answer",
        remedy: "Start it with `rmhdag up`.",
      });
      return (
        <main class="page">
          <ErrorBox error={error} what="the platform" retry={checkSession} />
        </main>
      );
    }
    case "signed-in": {
      const found = match.value;
      // Each screen and object is drawn anew; filters and tabs of the same one are not.
      const key = found ? `${found.screen.name} ${Object.values(found.params).join(" ")}` : place.value.path;
      return (
        <Shell screen={found?.screen}>
          <Guard key={key}>{found ? <found.screen.component params={found.params} /> : <NotFound />}</Guard>
        </Shell>
      );
    }
    default:
      return <Loading />;
  }
}

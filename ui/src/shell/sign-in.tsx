/** The way in: an API key, the organisation's sign-in, or the link that `rmhdag up` prints. */
import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { type ApiError, api, asApiError, type Model, ok } from "../core/api";
import { href, place } from "../core/router";
import { checkSession, sessionEnded } from "../core/session";
import { Button } from "../widgets/button";
import { Code } from "../widgets/code";
import { Icon } from "../widgets/icon";
import { BrandMark } from "./brand";
import { EnvironmentBadge } from "./environment";

/** End the session in the server too, then show the way in. */
export async function signOut(): Promise<void> {
  try {
    await ok(api.DELETE("/api/v1/session", {}));
  } catch {
    // Whatever the server says, this page shows nothing any more.
  }
  sessionEnded();
}

const REFUSED: Record<string, string> = {
  link_refused:
    "The link is not valid: it works once, within ten minutes, and on the machine itself. `rmhdag up` prints a new one.",
  sign_in_failed:
    "The sign-in of your organisation did not succeed. Try again; if it fails again, ask the administrator of this server.",
};

export function SignIn(): JSX.Element {
  const [key, setKey] = useState("");
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [ways, setWays] = useState<Model<"SignInWays">>();
  const id = useId();
  const reason = REFUSED[place.value.query.get("refused") ?? ""];
  useEffect(() => {
    document.title = "Sign in · rmhdag";
    ok(api.GET("/api/v1/session/ways", {})).then(setWays, () => setWays(undefined));
  }, []);
  const signIn = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await ok(api.POST("/api/v1/session/key", { body: { key: key.trim() } }));
      setKey("");
      await checkSession();
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy(false);
  };
  const { path, query } = place.value;
  const back = href(path + (query.size ? `?${query}` : ""));
  return (
    <main class="sign-in">
      <div class="sign-in-box">
        <p class="brand">
          <BrandMark />
          <span class="brand-name">rmhdag</span>
          <EnvironmentBadge />
        </p>
        <h1>Sign in</h1>
        {reason ? (
          <p class="notice tone-warning" role="alert">
            <Icon name="warning" /> {reason}
          </p>
        ) : null}
        {ways?.oidc ? (
          <>
            <a class="button button-primary button-large" href={`/login/oidc?back=${encodeURIComponent(back)}`}>
              <Icon name="key" /> {ways.oidc.label}
            </a>
            <p class="divider">or</p>
          </>
        ) : null}
        <form onSubmit={signIn}>
          <div class="field">
            <label for={id}>API key</label>
            <input
              id={id}
              type="password"
              autocomplete="off"
              placeholder="rmhdag_…"
              value={key}
              required
              spellcheck={false}
              aria-invalid={error !== undefined}
              aria-describedby={error ? `${id}-problem` : undefined}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
            {error ? (
              <p class="field-problem" id={`${id}-problem`} role="alert">
                {error.message} {error.remedy}
              </p>
            ) : null}
          </div>
          <Button type="submit" look={ways?.oidc ? "plain" : "primary"} class="button-large" busy={busy}>
            Sign in with the key
          </Button>
        </form>
        <div class="sign-in-help">
          <p>
            On the machine that runs rmhdag, <code>rmhdag up</code> prints a link that signs you in. For a key, ask an
            administrator, or run:
          </p>
          <Code text="rmhdag keys create NAME --scope read --scope submit --scope operate" />
        </div>
      </div>
    </main>
  );
}

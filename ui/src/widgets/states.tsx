/** What stands where data would: loading, nothing there, failed, not allowed. Each says why and what to do next. */
import type { ComponentChildren, JSX } from "preact";
import type { ApiError } from "../core/api";
import { Button, CopyButton } from "./button";
import { Icon, type IconName } from "./icon";

export function Loading({ what, rows = 3 }: { what?: string | undefined; rows?: number }): JSX.Element {
  return (
    <div class="state state-loading" role="status">
      <span class="sr-only">Loading {what ?? ""}</span>
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} class="skeleton" style={{ width: `${90 - ((index * 23) % 50)}%` }} />
      ))}
    </div>
  );
}

interface EmptyProps {
  title: string;
  icon?: IconName;
  /** Why it is empty, and what belongs here. */
  children?: ComponentChildren;
  /** The next step: a button, a link, a command. */
  action?: ComponentChildren;
}

export function Empty({ title, icon = "inbox", children, action }: EmptyProps): JSX.Element {
  return (
    <div class="state state-empty">
      <Icon name={icon} size={28} />
      <p class="state-title">{title}</p>
      {children ? <div class="state-text">{children}</div> : null}
      {action ? <div class="state-action">{action}</div> : null}
    </div>
  );
}

interface ErrorBoxProps {
  error: ApiError;
  what?: string | undefined;
  retry?: (() => void) | undefined;
}

export function ErrorBox({ error, what, retry }: ErrorBoxProps): JSX.Element {
  const report = [error.message, error.remedy, `code ${error.code}, status ${error.status}`].filter(Boolean).join("\n");
  return (
    <div class="state state-error" role="alert">
      <Icon name="warning" size={20} />
      <div>
        <p class="state-title">{what ? `Could not load ${what}` : "This did not work"}</p>
        <p class="state-text">
          {error.message} {error.remedy}
        </p>
        {error.places.length > 0 ? (
          <ul class="state-places">
            {error.places.slice(0, 8).map((place) => (
              <li key={place.pointer}>
                <code>{place.pointer || "/"}</code> {place.detail}
              </li>
            ))}
          </ul>
        ) : null}
        <p class="state-action">
          {retry ? (
            <Button icon="retry" onClick={retry}>
              Try again
            </Button>
          ) : null}
          <CopyButton text={report} label="Copy the error" />
          <span class="faint">
            {error.code}
            {error.status > 0 ? ` · ${error.status}` : ""}
          </span>
        </p>
      </div>
    </div>
  );
}

export function NoPermission({ error, what }: { error?: ApiError; what?: string | undefined }): JSX.Element {
  return (
    <Empty title={`You may not see ${what ?? "this"}`} icon="key">
      {error?.message ?? "Your key lacks the scope for it."} Ask an administrator for a key with that scope; the page
      “Settings” shows yours.
    </Empty>
  );
}

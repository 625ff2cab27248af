/** The toasts in their corner; screen readers hear them without losing their place. */
import type { JSX } from "preact";
import { Link } from "../core/router";
import { dismissToast, toasts } from "../core/toasts";
import { Button } from "../widgets/button";
import { Icon } from "../widgets/icon";

const LOOKS = { done: ["check", "good"], info: ["about", "active"], failed: ["warning", "bad"] } as const;

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => {
        const [icon, tone] = LOOKS[toast.kind];
        return (
          <div key={toast.id} class={`toast tone-${tone}`}>
            <Icon name={icon} />
            <p>
              {toast.text} {toast.to ? <Link to={toast.to}>{toast.linkText ?? "Open"}</Link> : null}
            </p>
            <Button look="quiet" icon="cross" label="Dismiss" onClick={() => dismissToast(toast.id)} />
          </div>
        );
      })}
    </div>
  );
}

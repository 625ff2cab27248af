/** Things to press. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Link } from "../core/router";
import { Icon, type IconName } from "./icon";

export interface ButtonProps {
  children?: ComponentChildren;
  onClick?: ((event: MouseEvent) => void) | undefined;
  icon?: IconName;
  /** `primary`: the one main action of a screen. `danger`: destroys something. `quiet`: no frame. */
  look?: "plain" | "primary" | "danger" | "quiet";
  type?: "button" | "submit";
  disabled?: boolean;
  /** For a button without words. */
  label?: string;
  title?: string;
  pressed?: boolean;
  busy?: boolean;
  class?: string;
}

export function Button(props: ButtonProps): JSX.Element {
  const { children, icon, look = "plain", type = "button", label, pressed, busy, disabled } = props;
  return (
    <button
      type={type}
      class={`button button-${look} ${children ? "" : "button-icon"} ${props.class ?? ""}`}
      onClick={props.onClick}
      disabled={disabled || busy}
      aria-label={label}
      title={props.title ?? label}
      aria-pressed={pressed}
      aria-busy={busy}
    >
      {busy ? <span class="spinner" /> : icon ? <Icon name={icon} /> : null}
      {children}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink(props: {
  to: string;
  children: ComponentChildren;
  icon?: IconName;
  look?: ButtonProps["look"];
  title?: string;
}): JSX.Element {
  return (
    <Link to={props.to} class={`button button-${props.look ?? "plain"}`} title={props.title}>
      {props.icon ? <Icon name={props.icon} /> : null}
      {props.children}
    </Link>
  );
}

/** Puts a text on the clipboard and says so. */
export function CopyButton({
  text,
  label = "Copy",
  words = true,
}: {
  text: string | (() => string);
  label?: string;
  words?: boolean;
}): JSX.Element {
  const [state, setState] = useState<"" | "done" | "failed">("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setState("done");
    } catch {
      setState("failed");
    }
    window.setTimeout(() => setState(""), 2000);
  };
  const words_ = state === "done" ? "Copied" : state === "failed" ? "Select it and press Ctrl+C" : label;
  return (
    <Button look="quiet" icon={state === "done" ? "check" : "copy"} onClick={copy} label={words_} class="copy-button">
      {words ? words_ : null}
    </Button>
  );
}

/** Keys as they stand on a keyboard. */
export function Kbd({ caps }: { caps: readonly string[] }): JSX.Element {
  return (
    <span class="kbd-row">
      {caps.map((cap, index) => (cap === "then" ? <span key={index}> then </span> : <kbd key={index}>{cap}</kbd>))}
    </span>
  );
}

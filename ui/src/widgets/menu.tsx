/** A button that opens a small panel below itself: Escape, a click or the focus elsewhere close it. */
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useRef } from "preact/hooks";

interface MenuProps {
  /** The words of the button. */
  summary: ComponentChildren;
  /** For a button without words. */
  label?: string;
  children: ComponentChildren;
  /** Of the panel. */
  class?: string;
  /** For those who open it by a key. */
  menu?: RefObject<HTMLDetailsElement | null>;
}

/** While a dialog asks whether to do what was chosen here, the panel stays behind it. */
const isDialog = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("dialog") !== null;

function closeOnLeave(menu: HTMLDetailsElement): void {
  if (!menu.open) return;
  const close = (event: Event) => {
    if (menu.isConnected && (menu.contains(event.target as Node) || isDialog(event.target))) return;
    menu.open = false;
    for (const name of ["pointerdown", "focusin"]) document.removeEventListener(name, close);
  };
  for (const name of ["pointerdown", "focusin"]) document.addEventListener(name, close);
}

export function Menu({ summary, label, children, class: className, menu }: MenuProps): JSX.Element {
  const own = useRef<HTMLDetailsElement>(null);
  const element = menu ?? own;
  return (
    <details
      class="menu"
      ref={element}
      onToggle={(event) => closeOnLeave(event.currentTarget)}
      onKeyDown={(event) => {
        const details = element.current;
        if (event.key !== "Escape" || !details?.open) return;
        details.open = false;
        details.querySelector("summary")?.focus();
        event.preventDefault();
      }}
    >
      <summary class="button button-quiet" aria-label={label}>
        {summary}
      </summary>
      <div class={`menu-body ${className ?? ""}`}>{children}</div>
    </details>
  );
}

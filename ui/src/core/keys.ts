/** Keys of the whole interface. Screens add theirs while they are shown; `?` lists what is there. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { isCharacter } from "./key-names";
import { letterKeys } from "./preferences";

export interface KeyBinding {
  /** One key, or two in a row: `"r"`, `"Shift+R"`, `"g j"`, `"Escape"`, `"Mod+K"`, `"1"`. */
  keys: string;
  /** What it does, for the list: "Retry what failed". */
  label: string;
  /** Heading in the list; the screen's name. */
  group: string;
  run: () => void;
  /** Also while typing in a field; only `Escape` and combinations with Mod should. */
  whileTyping?: boolean;
}

const registered = signal<readonly KeyBinding[]>([]);
export const keyBindings = registered;
const PAIR_MS = 1200;

/** Add bindings; the function that comes back removes them. Later ones win. */
export function registerKeys(bindings: readonly KeyBinding[]): () => void {
  registered.value = [...registered.peek(), ...bindings];
  return () => {
    registered.value = registered.peek().filter((one) => !bindings.includes(one));
  };
}

/** Bindings of a component, while it is shown. */
export function useKeys(bindings: () => readonly KeyBinding[], inputs: readonly unknown[]): void {
  // With the drawing, not after it: what is visible can be used.
  useLayoutEffect(() => registerKeys(bindings()), [...inputs]);
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement)
    return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type);
}

function nameOf(event: KeyboardEvent): string {
  const mod = event.metaKey || event.ctrlKey ? "Mod+" : "";
  const key = event.key.length === 1 ? (mod ? event.key.toUpperCase() : event.key) : event.key;
  const isLetter = /^[A-Z]$/.test(key);
  return `${mod}${event.altKey ? "Alt+" : ""}${isLetter && event.shiftKey ? "Shift+" : ""}${key}`;
}

let before = "";
let beforeAt = 0;

window.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const typing = isTyping(event.target);
  const name = nameOf(event);
  const pair = Date.now() - beforeAt < PAIR_MS ? `${before} ${name}` : name;
  const all = registered.peek();
  const modal = document.querySelector("dialog[open]") !== null;
  const usable = (one: KeyBinding): boolean => {
    if (typing && !one.whileTyping) return false;
    if (modal && !one.whileTyping) return false;
    return letterKeys.peek() || !isCharacter(one.keys);
  };
  const binding =
    all.findLast((one) => one.keys === pair && usable(one)) ?? all.findLast((one) => one.keys === name && usable(one));
  before = name;
  beforeAt = binding ? 0 : Date.now();
  if (binding) {
    event.preventDefault();
    binding.run();
  }
});

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** The parts of a binding as they stand on the keys: `["⌘", "K"]`, `["g", "then", "j"]`. */
export function keyCaps(keys: string): string[] {
  return keys
    .split(" ")
    .flatMap((one, index) => [
      ...(index ? ["then"] : []),
      ...one
        .split(/\+(?=.)/)
        .map((part) => ({ Mod: isMac ? "⌘" : "Ctrl", Escape: "Esc", ArrowUp: "↑", ArrowDown: "↓" })[part] ?? part),
    ]);
}

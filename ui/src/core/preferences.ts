/** What a person has chosen, kept in this browser. */
import { computed, effect, type Signal, signal } from "@preact/signals";

/** A signal that survives a reload, under a name of its own. Broken or foreign values fall back. */
export function persisted<T extends string | number | boolean | object>(
  name: string,
  fallback: T,
  isValid: (value: unknown) => value is T = (value): value is T => typeof value === typeof fallback,
): Signal<T> {
  const key = `rmhdag.${name}`;
  const read = (text: string | null): T => {
    try {
      const value: unknown = text === null ? fallback : JSON.parse(text);
      return isValid(value) ? value : fallback;
    } catch {
      return fallback;
    }
  };
  let stored: string | null = null;
  try {
    stored = localStorage.getItem(key);
  } catch {
    // A browser that keeps nothing shows the defaults.
  }
  const kept = signal<T>(read(stored));
  let first = true;
  effect(() => {
    const text = JSON.stringify(kept.value);
    if (first) first = false;
    else {
      try {
        localStorage.setItem(key, text);
      } catch {
        // As above.
      }
    }
  });
  window.addEventListener("storage", (event) => {
    if (event.key === key) kept.value = read(event.newValue);
  });
  return kept;
}

const oneOf =
  <T extends string>(...values: T[]) =>
  (value: unknown): value is T =>
    values.includes(value as T);

export type Theme = "system" | "light" | "dark" | "contrast";
export type Zone = "local" | "utc";

export const theme = persisted<Theme>("theme", "system", oneOf("system", "light", "dark", "contrast"));
export const zone = persisted<Zone>("zone", "local", oneOf("local", "utc"));
export type Density = "compact" | "roomy";
export const isDensity = oneOf<Density>("compact", "roomy");
export const density = persisted<Density>("density", "compact", isDensity);
/** What the address of a saved view asks for, as long as it is open. */
export const densityHere = signal<Density | undefined>(undefined);
export const densityShown = computed(() => densityHere.value ?? density.value);
/** Keys of one letter, digit or sign can be switched off (WCAG 2.1.4). */
export const letterKeys = persisted<boolean>("letter-keys", true);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  // The server writes it into the page, so that no wrong theme flashes up.
  // biome-ignore lint/suspicious/noDocumentCookie: the cookie store is not in all browsers
  document.cookie = `rmhdag_theme=${theme.value}; path=/ui; max-age=31536000; samesite=strict`;
});
effect(() => {
  document.documentElement.dataset.density = densityShown.value;
});

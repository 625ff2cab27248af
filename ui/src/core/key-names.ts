/** What kind of key a binding is. */

/** Made of letters, digits or signs alone, with or without Shift: what speech input or a slip would press (WCAG 2.1.4). */
export const isCharacter = (keys: string): boolean =>
  keys.split(" ").every((one) => [...one.replace(/^Shift\+(?=.)/, "")].length === 1);

/** Labels of jobs as people write them: one per line, `aoi=oslo`; `aoi-` takes one off. */

export type Labels = Record<string, string>;

export interface LabelChanges {
  put: Labels;
  remove: string[];
}

export const MOST_LABELS = 16;
const KEY = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const MOST_CHARACTERS = 200;
// Control and format characters; others that the server refuses are named by it.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const KEY_RULE = "A key has 1 to 63 lower-case letters, digits, “.”, “_” and “-”, and begins with a letter or digit";

/** What is wrong with `key` or `key=value`; nothing if it is fine. */
export function labelProblem(text: string): string | undefined {
  const [key = "", ...rest] = text.split("=");
  const value = rest.join("=");
  if (!KEY.test(key)) return `${KEY_RULE}: “${key}” is none.`;
  if ([...value].length > MOST_CHARACTERS) return `The value of ${key} has more than ${MOST_CHARACTERS} characters.`;
  if (INVISIBLE.test(value)) return `The value of ${key} has an invisible character: remove it.`;
  return undefined;
}

/** The changes that lines of text ask for, or a sentence about the first one that is wrong. */
export function readLabels(text: string, canRemove: boolean): LabelChanges & { problem?: string } {
  const changes: LabelChanges = { put: {}, remove: [] };
  const lines = text.split("\n").map((line) => line.trim());
  for (const line of lines.filter(Boolean)) {
    const at = line.indexOf("=");
    const key = at < 0 ? line.replace(/-$/, "") : line.slice(0, at);
    if (at < 0 && !(canRemove && line.endsWith("-"))) {
      return {
        ...changes,
        problem: `“${line}” is no label: write key=value${canRemove ? ", or key- to remove" : ""}.`,
      };
    }
    const problem = labelProblem(at < 0 ? key : line);
    if (problem) return { ...changes, problem };
    if (Object.hasOwn(changes.put, key) || changes.remove.includes(key)) {
      return { ...changes, problem: `“${key}” is there twice.` };
    }
    if (at < 0) changes.remove.push(key);
    else changes.put[key] = line.slice(at + 1);
  }
  if (Object.keys(changes.put).length > MOST_LABELS) return { ...changes, problem: `At most ${MOST_LABELS} labels.` };
  return changes;
}

export function withChanges(labels: Labels, { put, remove }: LabelChanges): Labels {
  const kept = Object.entries(labels).filter(([key]) => !remove.includes(key));
  return { ...Object.fromEntries(kept), ...put };
}

export function sameLabels(one: Labels, other: Labels): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

/** `aoi=oslo`, sorted by key. */
export function labelTexts(labels: Labels): string[] {
  return Object.keys(labels)
    .sort()
    .map((key) => `${key}=${labels[key]}`);
}

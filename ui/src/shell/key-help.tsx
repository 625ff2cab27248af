/** The keys that work here and now, made from the registry, so that it cannot be out of date. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { type KeyBinding, keyBindings, keyCaps } from "../core/keys";
import { letterKeys } from "../core/preferences";
import { Kbd } from "../widgets/button";
import { Dialog } from "../widgets/dialog";

export const keyHelpOpen = signal(false);

export function KeyHelp(): JSX.Element {
  const groups = new Map<string, KeyBinding[]>();
  // Of several bindings of a key, the last works: the logs have `n` for their next match.
  for (const binding of new Map(keyBindings.value.map((one) => [one.keys, one])).values()) {
    const all = groups.get(binding.group) ?? [];
    all.push(binding);
    groups.set(binding.group, all);
  }
  return (
    <Dialog title="Keys" onClose={() => (keyHelpOpen.value = false)}>
      <div class="key-groups">
        {[...groups].map(([group, bindings]) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl class="key-list">
              {bindings.map((binding) => (
                <div key={binding.keys}>
                  <dt>
                    <Kbd caps={keyCaps(binding.keys)} />
                  </dt>
                  <dd>{binding.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label class="check-line">
        <input type="checkbox" checked={letterKeys.value} onChange={() => (letterKeys.value = !letterKeys.value)} />
        Keys without Ctrl or ⌘: letters, digits and signs
      </label>
    </Dialog>
  );
}

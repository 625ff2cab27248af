/** Who may call, who is notified, and which platforms may order. */
import type { JSX } from "preact";
import { me, useTitle } from "~/core";
import { Facts, Page, Section, Tabs } from "~/widgets";
import { Callbacks } from "./callbacks";
import { Keys } from "./keys";
import { Platforms } from "./platforms";

export default function Settings(): JSX.Element {
  useTitle("Settings");
  const who = me.value;
  return (
    <Page title="Settings" lead="API keys, notifications and platforms of your namespace.">
      <Section title="You">
        <Facts
          items={[
            ["Name", who?.name],
            ["Namespace", who?.namespace],
            ["Scopes of your key", who?.scopes.join(", ")],
            ["Highest priority", who?.max_priority ?? "what the namespace allows"],
          ]}
        />
      </Section>
      <Tabs
        label="Settings"
        tabs={[
          { id: "keys", label: "API keys", panel: () => <Keys /> },
          { id: "callbacks", label: "Callbacks", panel: () => <Callbacks /> },
          { id: "platforms", label: "Platforms", panel: () => <Platforms /> },
        ]}
      />
    </Page>
  );
}

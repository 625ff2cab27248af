/** The switch for the chain that decided how long the job took; the graph and the timeline share it by the address. */
import type { JSX } from "preact";
import { useQuery } from "~/core";
import { Button } from "~/widgets";

export function CriticalPathButton(): JSX.Element {
  const [critical, setCritical] = useQuery("path", "");
  return (
    <Button
      look="quiet"
      pressed={critical === "1"}
      onClick={() => setCritical(critical ? null : "1")}
      title="The chain that decided how long the job took"
    >
      Critical path
    </Button>
  );
}

/** Where on Earth today's jobs were, as a strip of map. Without places it takes no room. */
import type { JSX } from "preact";
import { api, counted, Link, ok, useResource } from "~/core";
import { FootprintMap, placeOf } from "~/map";
import { Section } from "~/widgets";

const MOST = 500;
const DAY_MS = 24 * 3600 * 1000;

export function Footprints(): JSX.Element | null {
  const footprints = useResource(
    (signal) => {
      const since = new Date(Date.now() - DAY_MS).toISOString();
      return ok(api.GET("/api/v1/footprints", { params: { query: { of: "jobs", since, limit: MOST } }, signal }));
    },
    [],
    { live: ["jobs"], everySeconds: 60 },
  );
  const features = footprints.data.value?.features ?? [];
  if (features.length === 0) return null;
  return (
    <Section
      title="Today on the map"
      aside={
        <>
          {counted(features.length, "job")} with a place · <Link to="/assets">all assets</Link>
        </>
      }
    >
      <FootprintMap
        places={features.map(placeOf)}
        label="Places of today's jobs"
        height="13rem"
        list="none"
        wheel={false}
      />
    </Section>
  );
}

/** Parameters of earlier runs, to begin with. */
import type { JSX } from "preact";
import { ageText, api, ok, shortId, toastError, useResource } from "~/core";
import type { Values } from "./inputs";
import { lastRuns } from "./last-runs";

interface PresetsProps {
  workflow_id: string;
  onChoose: (values: Values) => void;
}

const SHOWN = 10;

export function Presets({ workflow_id, onChoose }: PresetsProps): JSX.Element | null {
  const jobs = useResource(() => lastRuns(workflow_id), [workflow_id]);
  const list = (jobs.data.value ?? []).slice(0, SHOWN);
  if (list.length === 0) return null;
  const load = async (job_id: string) => {
    try {
      const job = await ok(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id } } }));
      onChoose(job.input_params as Values);
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <label class="map-field">
      Begin with
      <select
        value=""
        onChange={(event) => {
          const job_id = event.currentTarget.value;
          event.currentTarget.value = "";
          if (job_id) void load(job_id);
        }}
      >
        <option value="">an earlier run…</option>
        {list.map((job) => (
          <option key={job.job_id} value={job.job_id}>
            {shortId(job.job_id)}, {job.status}, {ageText(job.created_at)}
          </option>
        ))}
      </select>
    </label>
  );
}

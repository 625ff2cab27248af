/** All screens. Each has a folder in `screens/` with a `screen.ts` that says where it is; add a line here. */
import type { Screen } from "./core/screen";
import { approvals } from "./screens/approvals/screen";
import { asset, assets } from "./screens/assets/screen";
import { dashboard } from "./screens/dashboard/screen";
import { health } from "./screens/health/screen";
import { job, jobReport } from "./screens/job/screen";
import { jobs } from "./screens/jobs/screen";
import { processes } from "./screens/processes/screen";
import { queues } from "./screens/queues/screen";
import { about, settings } from "./screens/settings/screen";
import { submit } from "./screens/submit/screen";
import { tasks } from "./screens/tasks/screen";
import { workflow, workflows } from "./screens/workflows/screen";

export const screens: readonly Screen[] = [
  dashboard,
  jobs,
  job,
  jobReport,
  workflows,
  workflow,
  tasks,
  submit,
  assets,
  asset,
  approvals,
  queues,
  processes,
  health,
  settings,
  about,
];

/** All screens. Each has a folder in `screens/` with a `screen.ts` that says where it is; add a line here. */
import type { Screen } from "./core/screen";
import { approvals } from "./screens/approvals/screen";
import { asset, assets } from "./screens/assets/screen";
import { dashboard } from "./screens/dashboard/screen";
import { job } from "./screens/job/screen";
import { jobs } from "./screens/jobs/screen";
import { submit } from "./screens/submit/screen";
import { workflow, workflows } from "./screens/workflows/screen";

export const screens: readonly Screen[] = [dashboard, jobs, job, workflows, workflow, submit, assets, asset, approvals];

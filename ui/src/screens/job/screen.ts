import { defineScreen, lazy } from "~/core/screen";

export const job = defineScreen({
  name: "job",
  path: "/jobs/:job_id",
  title: "Job",
  component: lazy(() => import("./job")),
});

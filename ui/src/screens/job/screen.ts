import { defineScreen, lazy } from "~/core/screen";

export const job = defineScreen({
  name: "job",
  path: "/jobs/:job_id",
  title: "Job",
  component: lazy(() => import("./job")),
});

export const jobReport = defineScreen({
  name: "job-report",
  path: "/jobs/:job_id/report",
  title: "Report of a job",
  component: lazy(() => import("./report")),
});

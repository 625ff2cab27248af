import { defineScreen, lazy } from "~/core/screen";

export const jobs = defineScreen({
  name: "jobs",
  path: "/jobs",
  title: "Jobs",
  nav: { label: "Jobs", icon: "jobs", section: "work", order: 2, key: "j" },
  component: lazy(() => import("./jobs")),
});

import { defineScreen, lazy } from "~/core/screen";

export const tasks = defineScreen({
  name: "tasks",
  path: "/tasks",
  title: "Tasks",
  nav: { label: "Tasks", icon: "task", section: "work", order: 5, key: "t" },
  component: lazy(() => import("./tasks")),
});

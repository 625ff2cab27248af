import { defineScreen, lazy } from "~/core/screen";

export const workflows = defineScreen({
  name: "workflows",
  path: "/workflows",
  title: "Workflows",
  nav: { label: "Workflows", icon: "workflow", section: "work", order: 3, key: "w" },
  component: lazy(() => import("./workflows")),
});

export const workflow = defineScreen({
  name: "workflow",
  path: "/workflows/:workflow_id",
  title: "Workflow",
  component: lazy(() => import("./workflow")),
});

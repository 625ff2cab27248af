import { defineScreen, lazy } from "~/core/screen";

export const health = defineScreen({
  name: "health",
  path: "/health",
  title: "Health",
  nav: { label: "Health", icon: "health", section: "platform", order: 3, key: "h" },
  component: lazy(() => import("./health")),
});

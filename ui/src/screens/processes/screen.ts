import { defineScreen, lazy } from "~/core/screen";

export const processes = defineScreen({
  name: "processes",
  path: "/nodes",
  title: "Workers and orchestrators",
  nav: { label: "Workers", icon: "node", section: "platform", order: 2, key: "n" },
  component: lazy(() => import("./processes")),
});

import { defineScreen, lazy } from "~/core/screen";

export const queues = defineScreen({
  name: "queues",
  path: "/queues",
  title: "Queues",
  nav: { label: "Queues", icon: "queue", section: "platform", order: 1, key: "q" },
  component: lazy(() => import("./queues")),
});

import { defineScreen, lazy } from "~/core/screen";

export const dashboard = defineScreen({
  name: "dashboard",
  path: "/",
  title: "Dashboard",
  nav: { label: "Dashboard", icon: "home", section: "work", order: 1, key: "d" },
  component: lazy(() => import("./dashboard")),
});

import { defineScreen, lazy } from "~/core/screen";

export const approvals = defineScreen({
  name: "approvals",
  path: "/approvals",
  title: "Approvals",
  nav: { label: "Approvals", icon: "approval", section: "content", order: 2, key: "v" },
  scopes: ["read", "reviewer"],
  component: lazy(() => import("./approvals")),
});

import { defineScreen, lazy } from "~/core/screen";

export const submit = defineScreen({
  name: "submit",
  path: ["/submit", "/submit/:workflow_id"],
  title: "Submit",
  nav: { label: "Submit", icon: "submit", section: "work", order: 4, key: "s" },
  scopes: ["submit"],
  component: lazy(() => import("./submit")),
});

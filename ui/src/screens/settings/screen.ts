import { defineScreen, lazy } from "~/core/screen";

export const settings = defineScreen({
  name: "settings",
  path: "/settings",
  title: "Settings",
  nav: { label: "Settings", icon: "settings", section: "platform", order: 4, key: "p" },
  component: lazy(() => import("./settings")),
});

export const about = defineScreen({
  name: "about",
  path: "/about",
  title: "About",
  nav: { label: "About", icon: "about", section: "platform", order: 5, key: "i" },
  component: lazy(() => import("./about")),
});

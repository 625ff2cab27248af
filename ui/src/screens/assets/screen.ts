import { defineScreen, lazy } from "~/core/screen";

export const assets = defineScreen({
  name: "assets",
  path: "/assets",
  title: "Assets",
  nav: { label: "Assets", icon: "asset", section: "content", order: 1, key: "a" },
  component: lazy(() => import("./assets")),
});

export const asset = defineScreen({
  name: "asset",
  path: "/assets/:asset_id",
  title: "Asset",
  component: lazy(() => import("./asset")),
});

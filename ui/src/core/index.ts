/** All that screens use of the core: `import { api, ok, useResource } from "~/core"`. */
export * from "./api";
export * from "./keys";
export * from "./labels";
export * from "./live";
export * from "./numbers";
export * from "./preferences";
export * from "./resource";
export * from "./router";
export * from "./screen";
export * from "./session";
export * from "./time";
export * from "./toasts";

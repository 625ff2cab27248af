/** All widgets, for screens: `import { Status, Table } from "~/widgets"`. */
export * from "./button";
export * from "./charts";
export * from "./code";
export * from "./dialog";
export * from "./filters";
export * from "./icon";
export * from "./json-tree";
export * from "./labels";
export * from "./layout";
export * from "./progress";
export * from "./split";
export * from "./states";
export * from "./status";
export * from "./table";
export * from "./tabs";
export * from "./time";

/** For an address that is nobody's. */
import type { JSX } from "preact";
import { path } from "../core/router";
import { useTitle } from "../core/screen";
import { Button, ButtonLink } from "../widgets/button";
import { Empty } from "../widgets/states";
import { openPalette } from "./palette";

export function NotFound(): JSX.Element {
  useTitle("Not found");
  return (
    <div class="page">
      <h1 class="sr-only">Not found</h1>
      <Empty
        title="There is no such page"
        icon="search"
        action={
          <>
            <Button icon="search" look="primary" onClick={() => openPalette(path.value.split("/").at(-1) ?? "")}>
              Search for it
            </Button>
            <ButtonLink to="/">Go to the dashboard</ButtonLink>
          </>
        }
      >
        Nothing is at <code>{path.value}</code>. The link may be old, or an id in it mistyped.
      </Empty>
    </div>
  );
}

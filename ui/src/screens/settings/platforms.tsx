/** Platforms that may order assets: which references identify an asset, and whether its content is reviewed. */
import type { JSX } from "preact";
import { api, type Model, may, me, ok, Resolved, toast, useResource } from "~/core";
import { Button, confirm, Empty, Section, Status, Table, Time } from "~/widgets";

type Platform = Model<"PlatformView">;

const REVIEWS: Record<string, string> = {
  none: "not needed",
  required: "needed",
  four_eyes: "needed, by someone else",
};

/** The definitions of `default` count for all namespaces, so they take the scope `platform`. */
const mayChange = (): boolean => (me.value?.namespace !== "default" && may("admin")) || may("platform");

export function Platforms(): JSX.Element {
  const platforms = useResource(async (signal) => (await ok(api.GET("/api/v1/platforms", { signal }))).platforms, [], {
    everySeconds: 30,
  });
  const deactivate = (one: Platform) =>
    confirm({
      title: `Take no more orders of ${one.platform_id}?`,
      preview: <p>Its assets stay and can be decided on. Orders are refused until it is registered as active again.</p>,
      action: "Deactivate",
      danger: true,
      run: async () => {
        const params = { path: { platform_id: one.platform_id } };
        await ok(api.POST("/api/v1/platforms/{platform_id}/deactivate", { params }));
        toast({ kind: "done", text: `${one.platform_id} is inactive.` });
        void platforms.reload();
      },
    });
  return (
    <div class="settings">
      <Section title="Platforms" flush>
        <Resolved
          resource={platforms}
          what="the platforms"
          isEmpty={(list) => list.length === 0}
          empty={
            <Empty title="No platform is registered" icon="asset">
              Register one with <code>rmhdag platforms set</code>.
            </Empty>
          }
        >
          {(list) => (
            <Table<Platform>
              label="Platforms"
              rows={list}
              rowKey={(one) => one.platform_id}
              columns={[
                {
                  id: "name",
                  title: "Platform",
                  width: "7rem",
                  cell: (one) => <strong>{one.platform_id}</strong>,
                },
                {
                  id: "state",
                  title: "State",
                  width: "5.5rem",
                  cell: (one) => (
                    <Status
                      status={one.active ? "active" : "stopped"}
                      word={one.active ? "active" : "inactive"}
                      look="plain"
                    />
                  ),
                },
                {
                  id: "refs",
                  title: "Identity of an asset",
                  hide: "narrow",
                  cell: (one) => (
                    <>
                      {one.identity_refs.join(", ")}{" "}
                      {one.optional_refs.length ? (
                        <span class="faint">optional: {one.optional_refs.join(", ")}</span>
                      ) : null}
                    </>
                  ),
                },
                {
                  id: "version",
                  title: "Version label",
                  width: "9rem",
                  hide: "medium",
                  cell: (one) => one.version_ref ?? "–",
                },
                {
                  id: "review",
                  title: "Review",
                  width: "9rem",
                  hide: "medium",
                  cell: (one) => REVIEWS[one.review] ?? one.review,
                },
                {
                  id: "changed",
                  title: "Changed",
                  width: "10rem",
                  hide: "medium",
                  cell: (one) =>
                    one.updated_at ? (
                      <>
                        <Time at={one.updated_at} />{" "}
                        {one.updated_by ? <span class="faint">by {one.updated_by}</span> : null}
                      </>
                    ) : (
                      "as shipped"
                    ),
                },
                ...(mayChange()
                  ? [
                      {
                        id: "act",
                        title: <span class="sr-only">Actions</span>,
                        width: "8.5rem",
                        align: "right" as const,
                        cell: (one: Platform) =>
                          one.active ? (
                            <Button look="quiet" onClick={() => deactivate(one)}>
                              Deactivate
                            </Button>
                          ) : null,
                      },
                    ]
                  : []),
              ]}
            />
          )}
        </Resolved>
      </Section>
      <p class="faint small">
        Register or change a platform with <code>rmhdag platforms set</code>; <code>rmhdag platforms --help</code> shows
        how.
      </p>
    </div>
  );
}

/** Notifications to those who submitted: what was sent, what failed and why, once more; and where they go. */
import type { JSX } from "preact";
import { api, counted, Link, type Model, may, ok, Resolved, shortId, to, toast, useQuery, useResource } from "~/core";
import { Button, Chip, Code, confirm, Empty, Section, Status, Table, Time, type Tone } from "~/widgets";

type Callback = Model<"CallbackView">;
type Endpoint = Model<"EndpointView">;
type CallbackState = Callback["status"];

const LOOKS: Record<string, [status: string, word: string, tone: Tone]> = {
  pending: ["pending", "to be sent", "waiting"],
  delivered: ["completed", "delivered", "good"],
  dead: ["failed", "given up", "bad"],
  disabled: ["stopped", "put aside", "off"],
};
const look = (status: string): [string, string, Tone] => LOOKS[status] ?? [status, status.replaceAll("_", " "), "off"];

export function Callbacks(): JSX.Element {
  const [status, choose] = useQuery("status");
  const callbacks = useResource(
    async (signal) => {
      const query = { limit: 200, ...(status ? { status: status as CallbackState } : {}) };
      return (await ok(api.GET("/api/v1/callbacks", { params: { query }, signal }))).callbacks;
    },
    [status],
    { live: ["jobs"], everySeconds: 5, clears: false },
  );
  const redeliver = (one: Callback) =>
    confirm({
      title: "Send this notification again?",
      preview: (
        <p>
          {one.endpoint_url} gets it with the same id and body, so a receiver that has it already can tell. The schedule
          of tries starts from its beginning.
        </p>
      ),
      action: "Send again",
      run: async () => {
        const path = { callback_id: one.callback_id };
        await ok(api.POST("/api/v1/callbacks/{callback_id}/redeliver", { params: { path } }));
        toast({ kind: "done", text: "It is sent again." });
        void callbacks.reload();
      },
    });
  return (
    <div class="settings">
      <div class="chips">
        {Object.keys(LOOKS).map((one) => (
          <Chip
            key={one}
            chosen={one === status}
            onToggle={() => choose(one === status ? null : one)}
            tone={look(one)[2]}
          >
            {look(one)[1]}
          </Chip>
        ))}
      </div>
      <Section title="Callbacks" aside={<span>newest first</span>} flush>
        <Resolved
          resource={callbacks}
          what="the callbacks"
          isEmpty={(list) => list.length === 0}
          empty={
            status ? (
              <Empty title="No callback matches" icon="search">
                <Link to="/settings?tab=callbacks">Show all callbacks</Link>
              </Empty>
            ) : (
              <Empty title="No notifications yet" icon="bell">
                A job that is submitted with a <code>callback_url</code> notifies that address when it ends.
              </Empty>
            )
          }
        >
          {(list) => <CallbackTable callbacks={list} redeliver={redeliver} />}
        </Resolved>
      </Section>
      {may("admin") ? <Endpoints /> : null}
    </div>
  );
}

function CallbackTable(props: { callbacks: readonly Callback[]; redeliver: (one: Callback) => void }): JSX.Element {
  return (
    <Table<Callback>
      label="Callbacks"
      rows={props.callbacks}
      rowKey={(one) => one.callback_id}
      detail={(one) => (
        <div class="stack">
          {one.last_error ? <p>{one.last_error}</p> : null}
          <Code text={JSON.stringify(one.body, null, 2)} language="json" label="Body" />
        </div>
      )}
      columns={[
        {
          id: "to",
          title: "Receiver",
          cell: (one) => (
            <>
              {one.endpoint_url} <span class="faint">{one.last_error}</span>
            </>
          ),
        },
        {
          id: "state",
          title: "State",
          width: "8rem",
          cell: (one) => <Status status={look(one.status)[0]} word={look(one.status)[1]} look="plain" />,
        },
        {
          id: "answer",
          title: "Answer",
          width: "5rem",
          align: "right",
          hide: "medium",
          cell: (one) => one.last_status ?? "–",
        },
        { id: "tries", title: "Tries", width: "4rem", align: "right", hide: "narrow", cell: (one) => one.attempts },
        {
          id: "next",
          title: "Next try",
          width: "7rem",
          hide: "medium",
          cell: (one) => (one.settled_at ? "–" : <Time at={one.next_attempt_at} />),
        },
        {
          id: "job",
          title: "Job",
          width: "7rem",
          hide: "narrow",
          cell: (one) => <Link to={to`/jobs/${one.job_id}`}>{shortId(one.job_id)}</Link>,
        },
        { id: "made", title: "Created", width: "7rem", hide: "medium", cell: (one) => <Time at={one.created_at} /> },
        ...(may("operate")
          ? [
              {
                id: "act",
                title: <span class="sr-only">Actions</span>,
                width: "8.5rem",
                align: "right" as const,
                cell: (one: Callback) => (
                  <Button look="quiet" onClick={() => props.redeliver(one)}>
                    Send again
                  </Button>
                ),
              },
            ]
          : []),
      ]}
    />
  );
}

function Endpoints(): JSX.Element {
  const endpoints = useResource(
    async (signal) =>
      (await ok(api.GET("/api/v1/callback-endpoints", { params: { query: { limit: 200 } }, signal }))).endpoints,
    [],
    { everySeconds: 15 },
  );
  const disable = (one: Endpoint) =>
    confirm({
      title: "Send nothing more to this endpoint?",
      preview: <p>Callbacks to {one.url} are put aside until it is enabled again. None is lost.</p>,
      action: "Disable",
      danger: true,
      reason: "optional",
      run: async (reason) => {
        const params = { path: { endpoint_id: one.endpoint_id } };
        const body = { reason: reason || "disabled in the web interface" };
        await ok(api.POST("/api/v1/callback-endpoints/{endpoint_id}/disable", { params, body }));
        void endpoints.reload();
      },
    });
  const enable = (one: Endpoint) =>
    confirm({
      title: "Send to this endpoint again?",
      preview: <p>{one.url} gets new callbacks, and those that were put aside meanwhile.</p>,
      action: "Enable",
      run: async () => {
        const params = { path: { endpoint_id: one.endpoint_id } };
        const body = { redeliver: true };
        const answer = await ok(api.POST("/api/v1/callback-endpoints/{endpoint_id}/enable", { params, body }));
        toast({ kind: "done", text: `Enabled; ${counted(answer.redelivered, "callback")} sent now.` });
        void endpoints.reload();
      },
    });
  return (
    <Section title="Endpoints" aside={<span>each has its own secret, with which its callbacks are signed</span>} flush>
      <Resolved
        resource={endpoints}
        what="the endpoints"
        isEmpty={(list) => list.length === 0}
        empty={
          <Empty title="No endpoints yet" icon="link">
            One is made with the first callback to an address, or with <code>rmhdag callbacks</code>.
          </Empty>
        }
      >
        {(list) => (
          <Table<Endpoint>
            label="Endpoints"
            rows={list}
            rowKey={(one) => one.endpoint_id}
            columns={[
              { id: "url", title: "Address", cell: (one) => one.url },
              {
                id: "state",
                title: "State",
                width: "14rem",
                cell: (one) =>
                  one.disabled_at ? (
                    <>
                      <Status status="stopped" word="disabled" look="plain" />{" "}
                      <span class="faint">{one.disabled_reason}</span>
                    </>
                  ) : (
                    <Status status="active" look="plain" />
                  ),
              },
              {
                id: "made",
                title: "Created",
                width: "11rem",
                hide: "medium",
                cell: (one) => (
                  <>
                    <Time at={one.created_at} /> <span class="faint">by {one.created_by}</span>
                  </>
                ),
              },
              {
                id: "act",
                title: <span class="sr-only">Actions</span>,
                width: "6rem",
                align: "right",
                cell: (one) => (
                  <Button look="quiet" onClick={() => (one.disabled_at ? enable(one) : disable(one))}>
                    {one.disabled_at ? "Enable" : "Disable"}
                  </Button>
                ),
              },
            ]}
          />
        )}
      </Resolved>
    </Section>
  );
}

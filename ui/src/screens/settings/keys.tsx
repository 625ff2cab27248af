/** API keys of the namespace: who has them, what they allow, when they were used; create and revoke. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import {
  type ApiError,
  api,
  asApiError,
  Link,
  type Model,
  may,
  me,
  ok,
  Resolved,
  type Scope,
  toast,
  useQuery,
  useResource,
} from "~/core";
import {
  Button,
  Chip,
  CopyButton,
  confirm,
  Dialog,
  Empty,
  ErrorBox,
  NoPermission,
  Section,
  Status,
  Table,
  Time,
} from "~/widgets";

type Key = Model<"KeyView">;

/** What each scope allows, in the order in which they are offered. */
const SCOPES: [Scope, string][] = [
  ["read", "see jobs, workflows, queues and health"],
  ["submit", "submit jobs"],
  ["operate", "cancel, retry, requeue, decide"],
  ["reviewer", "approve, reject and revoke content"],
  ["admin", "all of this, and keys, endpoints and workers of the namespace"],
  ["worker", "take tasks as a worker"],
  ["platform", "schema, retention, processes and audit trail of all namespaces"],
  ["b2b", "order at the gateway"],
  ["ops", "order at the gateway and look at jobs there"],
  ["sandbox", "every order is a dry run"],
  ["gateway", "act for callers, as the gateway does"],
];
const MOST = 500;

/** Without the scope nothing is asked: the answer would be a refusal. */
export function Keys(): JSX.Element {
  return may("admin") ? <KeyList /> : <NoPermission what="the keys of this namespace" />;
}

function KeyList(): JSX.Element {
  const [dead, showDead] = useQuery("dead");
  const [made, setMade] = useState<Model<"KeyMade">>();
  const [open, setOpen] = useState(false);
  const keys = useResource(
    async (signal) => {
      const query = { dead_too: dead === "yes", limit: MOST };
      return (await ok(api.GET("/api/v1/keys", { params: { query }, signal }))).keys.toSorted(keysFirst);
    },
    [dead],
    { everySeconds: 30, clears: false },
  );
  const revoke = (key: Key) =>
    confirm({
      title: `Revoke the ${key.kind} of ${key.name}?`,
      preview: (
        <>
          <p>
            It stops working at once, and with it every browser that signed in with it. It cannot be used again; create
            a new one instead.
          </p>
          <p class="soft">
            {key.last_used_at ? (
              <>
                Last used <Time at={key.last_used_at} />.
              </>
            ) : (
              "It was never used."
            )}{" "}
            {key.key_id === me.value?.key_id ? "This is your own session: you will be signed out." : ""}
          </p>
        </>
      ),
      action: "Revoke",
      danger: true,
      run: async () => {
        await ok(api.POST("/api/v1/keys/{key_id}/revoke", { params: { path: { key_id: key.key_id } } }));
        toast({ kind: "done", text: `The ${key.kind} of ${key.name} is revoked.` });
        void keys.reload();
      },
    });
  return (
    <div class="settings">
      <div class="chips">
        <Chip chosen={dead === "yes"} onToggle={() => showDead(dead === "yes" ? null : "yes")}>
          Revoked and expired too
        </Chip>
        <span class="settings-right">
          <Button look="primary" icon="key" onClick={() => setOpen(true)}>
            Create a key
          </Button>
        </span>
      </div>
      <Section title="Keys and sessions" flush>
        <Resolved
          resource={keys}
          what="the keys"
          isEmpty={(list) => list.length === 0}
          empty={<Empty title="No keys yet" icon="key" />}
        >
          {(list) => <KeyTable keys={list} revoke={revoke} />}
        </Resolved>
      </Section>
      <p class="faint small">
        Every creation and revocation is in the audit trail: <code>rmhdag audit --action key</code>. Rotate a key
        without downtime with <code>rmhdag keys rotate</code>.
      </p>
      {open ? (
        <CreateDialog
          onClose={() => setOpen(false)}
          onMade={(key) => {
            setOpen(false);
            setMade(key);
            void keys.reload();
          }}
        />
      ) : null}
      {made ? <MadeDialog made={made} onClose={() => setMade(undefined)} /> : null}
    </div>
  );
}

/** The newest keys, then the newest sessions: each sign-in makes one, and soon they are the most. */
function keysFirst(one: Key, other: Key): number {
  return (
    Number(one.kind !== "key") - Number(other.kind !== "key") ||
    Date.parse(other.created_at) - Date.parse(one.created_at)
  );
}

function KeyTable({ keys, revoke }: { keys: readonly Key[]; revoke: (key: Key) => void }): JSX.Element {
  return (
    <Table<Key>
      label="Keys"
      rows={keys}
      rowKey={(key) => key.key_id}
      columns={[
        {
          id: "name",
          title: "Owner",
          cell: (key) => (
            <>
              {key.name} <span class="faint">{key.kind === "key" ? "" : key.kind}</span>
              {key.key_id === me.value?.key_id ? <span class="faint"> (you)</span> : null}
            </>
          ),
        },
        {
          id: "state",
          title: "State",
          width: "7rem",
          cell: (key) => (
            <Status
              status={key.state === "live" ? "active" : key.state === "revoked" ? "revoked" : "stopped"}
              word={key.state}
              look="plain"
            />
          ),
        },
        { id: "scopes", title: "Scopes", hide: "narrow", cell: (key) => key.scopes.join(", ") },
        {
          id: "used",
          title: "Last used",
          width: "7rem",
          hide: "medium",
          cell: (key) => <Time at={key.last_used_at} empty="never" />,
        },
        {
          id: "created",
          title: "Created",
          width: "11rem",
          hide: "medium",
          cell: (key) => (
            <>
              <Time at={key.created_at} /> <span class="faint">by {key.created_by}</span>
            </>
          ),
        },
        {
          id: "expires",
          title: "Expires",
          width: "7rem",
          hide: "medium",
          cell: (key) => <Time at={key.expires_at} empty="never" />,
        },
        {
          id: "act",
          title: <span class="sr-only">Actions</span>,
          width: "6rem",
          align: "right",
          cell: (key) =>
            key.state === "live" ? (
              <Button look="quiet" title={`Revoke ${key.name}`} onClick={() => revoke(key)}>
                Revoke
              </Button>
            ) : null,
        },
      ]}
    />
  );
}

function CreateDialog({
  onClose,
  onMade,
}: {
  onClose: () => void;
  onMade: (key: Model<"KeyMade">) => void;
}): JSX.Element {
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [scopes, setScopes] = useState<readonly Scope[]>(["read"]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const id = useId();
  const create = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const body = { name: name.trim(), scopes: [...scopes], expires_days: days ? Number(days) : null };
      onMade(await ok(api.POST("/api/v1/keys", { body })));
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  const toggle = (scope: Scope) =>
    setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  return (
    <Dialog title="Create an API key" onClose={onClose}>
      <form class="stack" onSubmit={create}>
        <div class="field">
          <label for={`${id}-name`}>Owner</label>
          <input
            id={`${id}-name`}
            value={name}
            required
            maxLength={64}
            pattern="[A-Za-z0-9][A-Za-z0-9 ._@:+\-]*"
            autocomplete="off"
            aria-describedby={`${id}-hint`}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <span class="field-hint" id={`${id}-hint`}>
            A person or a program; jobs and decisions carry this name.
          </span>
        </div>
        <fieldset class="settings-scopes">
          <legend>What it allows</legend>
          {SCOPES.filter(([scope]) => may(scope)).map(([scope, words]) => (
            <label key={scope} class="check-line">
              <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} />
              <span>
                <strong>{scope}</strong> <span class="soft">{words}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <div class="field">
          <label for={`${id}-days`}>Expires</label>
          <select id={`${id}-days`} value={days} onChange={(event) => setDays(event.currentTarget.value)}>
            <option value="1">in a day</option>
            <option value="30">in 30 days</option>
            <option value="90">in 90 days</option>
            <option value="365">in a year</option>
          </select>
        </div>
        {error ? <ErrorBox error={error} /> : null}
        <div class="row settings-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={busy} disabled={!name.trim() || scopes.length === 0}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function MadeDialog({ made, onClose }: { made: Model<"KeyMade">; onClose: () => void }): JSX.Element {
  return (
    <Dialog
      title={`The key of ${made.name}`}
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      }
    >
      <p class="notice tone-warning">
        <span>
          <strong>It is shown only now.</strong> The platform keeps a hash of it; nobody can show it again.
        </span>
      </p>
      <div class="row">
        <code class="settings-secret" data-testid="new-key">
          {made.key}
        </code>
        <CopyButton text={made.key} label="Copy the key" />
      </div>
      <p class="soft">
        Send it as <code>Authorization: Bearer …</code>, or <Link to="/about">see how</Link> the client and the command
        line take it.
      </p>
    </Dialog>
  );
}

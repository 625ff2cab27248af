/** What waits for a person: content to look at and decide about, and jobs that wait at an approval node. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import {
  type ApiError,
  api,
  asApiError,
  Link,
  type Model,
  may,
  ok,
  Resolved,
  shortId,
  to,
  toast,
  useKeys,
  useQuery,
  useResource,
  useTitle,
} from "~/core";
import { Button, CopyButton, Empty, ErrorBox, Facts, Icon, Page, Section, Status, Time } from "~/widgets";
import { Decisions, ownOrder } from "../assets/decisions";
import { RevisionView } from "../assets/revision-view";
import { Thumbnail } from "../assets/thumbnail";
import { titleOf } from "../assets/titles";

type Waiting = Model<"WaitingApproval">;

const keyOf = (one: Waiting): string =>
  one.kind === "revision" ? `${one.asset_id}:${one.revision}` : `${one.job_id}:${one.node_id}`;
const nameOf = (one: Waiting): string =>
  one.kind === "revision"
    ? titleOf(one.platform_refs, shortId(one.asset_id ?? ""))
    : `${one.workflow_id ?? "Job"} · ${one.node_id}`;

export default function Approvals(): JSX.Element {
  useTitle("Approvals");
  const waiting = useResource(
    async (signal) => (await ok(api.GET("/api/v1/approvals", { params: { query: { limit: 200 } }, signal }))).approvals,
    [],
    { live: ["nodes"], everySeconds: 20 },
  );
  return (
    <Page
      title="Approvals"
      wide
      lead="What waits for a decision, longest first. A decision is about exactly the content that you see."
    >
      <Resolved
        resource={waiting}
        what="what waits"
        isEmpty={(list) => list.length === 0}
        empty={
          <Empty
            title="Nothing waits for a decision"
            icon="approval"
            action={
              <Link class="button" to="/assets?state=approved">
                Approved assets
              </Link>
            }
          >
            Revisions appear here when their workflow or platform asks for a review, and jobs when they reach an
            approval node.
          </Empty>
        }
      >
        {(list) => <Inbox list={list} reload={() => void waiting.reload()} />}
      </Resolved>
    </Page>
  );
}

function Inbox({ list, reload }: { list: readonly Waiting[]; reload: () => void }): JSX.Element {
  const [chosenKey, choose] = useQuery("at");
  const pictures = useResource(
    async (signal) => {
      const query = { of: "assets" as const, approval_state: "pending_review" as const };
      const page = await ok(api.GET("/api/v1/footprints", { params: { query }, signal }));
      return new Map(page.features.map((one) => [one.id, one.properties.thumbnail]));
    },
    [list.length],
    { clears: false },
  ).data.value;
  const index = Math.max(
    0,
    list.findIndex((one) => keyOf(one) === chosenKey),
  );
  const chosen = list[index];
  const move = (step: number) => {
    const next = list[Math.max(0, Math.min(list.length - 1, index + step))];
    if (next) choose(keyOf(next));
  };
  useKeys(
    () => [
      { keys: "j", label: "Next", group: "Approvals", run: () => move(1) },
      { keys: "k", label: "Before", group: "Approvals", run: () => move(-1) },
    ],
    [index, list],
  );
  return (
    <div class="inbox">
      <Section title="Waiting" aside={<span>{list.length}</span>} flush class="inbox-list">
        <ul>
          {list.map((one) => (
            <li key={keyOf(one)}>
              <button
                type="button"
                class="inbox-entry"
                aria-current={one === chosen ? "true" : undefined}
                onClick={() => choose(keyOf(one))}
              >
                {one.kind === "revision" ? (
                  <Thumbnail path={pictures?.get(one.asset_id ?? "")} />
                ) : (
                  <Status status="pending" look="icon" />
                )}
                <span class="inbox-words">
                  <strong>{nameOf(one)}</strong>
                  <span class="faint">
                    {one.kind === "revision" ? `revision ${one.revision}` : "approval node"} ·{" "}
                    <Time at={one.waiting_since} />
                  </span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      </Section>
      {chosen ? (
        chosen.kind === "revision" ? (
          <ContentReview key={keyOf(chosen)} one={chosen} reload={reload} />
        ) : (
          <NodeDecision key={keyOf(chosen)} one={chosen} reload={reload} />
        )
      ) : null}
    </div>
  );
}

function ContentReview({ one, reload }: { one: Waiting; reload: () => void }): JSX.Element {
  const asset_id = one.asset_id ?? "";
  const revision = one.revision ?? 1;
  const asset = useResource(
    (signal) => ok(api.GET("/api/v1/assets/{asset_id}", { params: { path: { asset_id } }, signal })),
    [asset_id],
  );
  const [compared, compare] = useQuery("compare", "yes");
  // The list is read again and again. A decision stays with what the reviewer looks at.
  const [shown, show] = useState(one.content_hash ?? null);
  const served = asset.data.value?.current_revision ?? null;
  const subject = {
    asset_id,
    revision,
    content_hash: shown,
    review_state: "pending_review",
    clearance: "undecided",
    status: "completed",
  };
  return (
    <div class="review">
      <div class="review-head">
        <div>
          <h2>
            {nameOf(one)}, revision {revision}
          </h2>
          <p class="faint">
            Submitted by {one.submitted_by}, complete <Time at={one.waiting_since} />. Content{" "}
            <code data-testid="content-hash" title={shown ?? ""}>
              {shown?.slice(0, 16)}
            </code>
            <CopyButton text={shown ?? ""} words={false} label="Copy the hash" />
          </p>
        </div>
        {may("reviewer") ? (
          <Decisions subject={subject} served={served} onDone={reload} inbox notApproved={ownOrder(one.not_by)} />
        ) : (
          <p class="faint">Deciding needs the scope “reviewer”, which your key does not have.</p>
        )}
      </div>
      {one.content_hash === shown ? null : (
        <p class="notice tone-warning" role="alert">
          <Icon name="warning" />
          <span>The content was replaced while you looked at it. A decision about what you see would be refused.</span>
          <Button onClick={() => show(one.content_hash ?? null)}>Look at the new content</Button>
        </p>
      )}
      <Section
        title="What it shows"
        aside={
          served ? (
            <label class="check-line">
              <input
                type="checkbox"
                checked={compared === "yes"}
                onChange={(event) => compare(event.currentTarget.checked ? null : "no")}
              />
              Compare with revision {served}, which is served
            </label>
          ) : (
            <span>nothing is served yet</span>
          )
        }
      >
        <RevisionView
          key={shown}
          asset_id={asset_id}
          revision={revision}
          against={served && compared === "yes" ? served : undefined}
          height="26rem"
        />
      </Section>
      <Section title="About it">
        {one.message ? <p class="quoted">{one.message}</p> : null}
        <Facts
          items={[
            [
              "Asset",
              <Link key="a" to={to`/assets/${asset_id}?revision=${revision}`}>
                Open it with files, lineage and STAC items
              </Link>,
            ],
            ["Job", one.job_id ? <Link to={to`/jobs/${one.job_id}`}>{shortId(one.job_id)}</Link> : null],
          ]}
        />
      </Section>
    </div>
  );
}

function NodeDecision({ one, reload }: { one: Waiting; reload: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const [clearance, setClearance] = useState("");
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<ApiError>();
  const id = useId();
  const job_id = one.job_id ?? "";
  const node_id = one.node_id ?? "";
  const decide = async (decision: "approve" | "reject") => {
    setBusy(decision);
    setError(undefined);
    try {
      const body = {
        decision,
        ...(reason.trim() ? { reason: reason.trim() } : {}),
        ...(clearance && decision === "approve" ? { clearance } : {}),
      };
      await ok(
        api.POST("/api/v1/jobs/{job_id}/nodes/{node_id}/decide", { params: { path: { job_id, node_id } }, body }),
      );
      toast({
        kind: "done",
        text: decision === "approve" ? "Approved; the job goes on." : "Rejected.",
        to: to`/jobs/${job_id}`,
        linkText: "Open the job",
      });
      reload();
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy("");
  };
  const isAllowed = one.needs_scopes.some((scope) => may(scope));
  const own = ownOrder(one.not_by);
  return (
    <Section title={nameOf(one)} class="review-node">
      <p class="quoted">{one.message ?? "The workflow asks for a decision."}</p>
      <Facts
        items={[
          [
            "Job",
            <Link key="j" to={to`/jobs/${job_id}`}>
              {shortId(job_id)}
            </Link>,
          ],
          ["Submitted by", one.submitted_by],
          ["Asked", <Time key="t" at={one.waiting_since} />],
          ["Fails without a decision", one.deadline_at ? <Time at={one.deadline_at} /> : null],
          ["Approvers", one.approvers.length ? one.approvers.join(", ") : null],
        ]}
      />
      {isAllowed ? (
        <>
          {one.asset_id ? (
            <div class="field">
              <label for={`${id}-who`}>Who may see the revision</label>
              <select id={`${id}-who`} value={clearance} onChange={(event) => setClearance(event.currentTarget.value)}>
                <option value="">Choose before you approve</option>
                <option value="public">Everybody</option>
                <option value="restricted">Official use only</option>
              </select>
            </div>
          ) : null}
          <div class="field">
            <label for={id}>Reason {one.asset_id ? "(needed to reject)" : "(optional)"}</label>
            <textarea
              id={id}
              rows={2}
              value={reason}
              maxLength={500}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </div>
          {error ? <ErrorBox error={error} /> : null}
          <div class="decisions">
            {own ? (
              <p class="faint">{own}</p>
            ) : (
              <Button
                look="primary"
                icon="check"
                busy={busy === "approve"}
                disabled={Boolean(one.asset_id) && !clearance}
                onClick={() => decide("approve")}
              >
                Approve
              </Button>
            )}
            <Button
              look="danger"
              icon="cross"
              busy={busy === "reject"}
              disabled={Boolean(one.asset_id) && !reason.trim()}
              onClick={() => decide("reject")}
            >
              Reject
            </Button>
          </div>
        </>
      ) : (
        <p class="faint">Deciding needs the scope {one.needs_scopes.map((scope) => `“${scope}”`).join(" or ")}.</p>
      )}
    </Section>
  );
}

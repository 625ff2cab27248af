/** Decisions about a revision: each names the content that is shown, and is refused if that is another by now. */
import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { type ApiError, api, asApiError, bytesText, counted, type Model, may, me, ok, toast } from "~/core";
import { Button, confirm, Dialog, ErrorBox } from "~/widgets";

export interface Subject {
  asset_id: string;
  revision: number;
  content_hash: string | null;
  review_state: string;
  clearance: string;
  status: string;
  unpublished_at?: string | null;
}

interface DecisionsProps {
  subject: Subject;
  /** What the asset serves now. */
  served: number | null;
  onDone: () => void;
  /** Only approve and reject, for the inbox. */
  inbox?: boolean;
  /** Why the caller must not approve it; rejecting stays. */
  notApproved?: string;
  /** Beside the buttons. */
  children?: ComponentChildren;
}

/** With four eyes: who ordered it must leave the approval to somebody else. */
export const ownOrder = (notBy: readonly string[]): string =>
  notBy.includes(me.value?.name ?? "") ? "You ordered it, so another reviewer has to approve it." : "";

const pathOf = (subject: Subject) => ({ path: { asset_id: subject.asset_id, revision: subject.revision } });

function say(decision: Model<"DecisionView">): void {
  const served = decision.served_revision ? `Revision ${decision.served_revision} is served.` : "Nothing is served.";
  const state = decision.review_state === "approved" ? `approved and ${decision.clearance}` : decision.review_state;
  toast({
    kind: "done",
    text: `Revision ${decision.revision} is ${state}. ${served} ${decision.notices.join(" ")}`.trim(),
  });
}

export function Decisions({
  subject,
  served,
  onDone,
  inbox = false,
  notApproved = "",
  children,
}: DecisionsProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const params = pathOf(subject);
  const content_hash = subject.content_hash ?? "";
  const name = `revision ${subject.revision}`;
  const hash = <code>{content_hash.slice(0, 16)}</code>;
  const waits = subject.review_state === "pending_review" && subject.status === "completed" && content_hash !== "";
  const isApproved = subject.review_state === "approved";

  const reject = () =>
    confirm({
      title: `Reject ${name}?`,
      preview: (
        <p>
          It is never served, and the submitter reads your reason. {servedText(served)} You decide about the content{" "}
          {hash}.
        </p>
      ),
      action: "Reject",
      danger: true,
      reason: "required",
      run: async (reason) => {
        say(
          await ok(
            api.POST("/api/v1/assets/{asset_id}/revisions/{revision}/reject", {
              params,
              body: { content_hash, reason },
            }),
          ),
        );
        onDone();
      },
    });
  const revoke = () =>
    confirm({
      title: `Revoke the approval of ${name}?`,
      preview: (
        <p>
          The newest revision that is still approved is served again, or none. Files stay. The submitter reads your
          reason.
        </p>
      ),
      action: "Revoke",
      danger: true,
      reason: "required",
      run: async (reason) => {
        say(
          await ok(
            api.POST("/api/v1/assets/{asset_id}/revisions/{revision}/revoke", {
              params,
              body: { content_hash, reason },
            }),
          ),
        );
        onDone();
      },
    });
  const clear = () =>
    confirm({
      title: `Make ${name} public?`,
      preview: <p>Everybody may see it from then on. The way back is to revoke it.</p>,
      action: "Make public",
      reason: "optional",
      run: async (reason) => {
        const body = { content_hash, clearance: "public", ...(reason ? { reason } : {}) };
        say(await ok(api.POST("/api/v1/assets/{asset_id}/revisions/{revision}/clear", { params, body })));
        onDone();
      },
    });
  const rollBack = () =>
    confirm({
      title: `Go back to ${name}?`,
      preview: (
        <p>
          A new revision with the content {hash} takes the place of {served ? `revision ${served}` : "what is served"}.
          No revision is lost; approved content stays approved.
        </p>
      ),
      action: `Roll back to ${subject.revision}`,
      run: async () => {
        const made = await ok(
          api.POST("/api/v1/assets/{asset_id}/rollback", {
            params: { path: { asset_id: subject.asset_id } },
            body: { revision: subject.revision },
          }),
        );
        toast({ kind: "done", text: `Revision ${made.revision} has the content of revision ${subject.revision}.` });
        onDone();
      },
    });
  const unpublish = () => {
    const path = { path: { asset_id: subject.asset_id } };
    const body = { revision: subject.revision, force: isApproved };
    confirm({
      title: `Unpublish ${name}?`,
      preview: async () => {
        const plan = await ok(
          api.POST("/api/v1/assets/{asset_id}/unpublish", { params: path, body: { ...body, dry_run: true } }),
        );
        return <UnpublishPlan plan={plan} isApproved={isApproved} />;
      },
      action: "Delete the files",
      danger: true,
      reason: "optional",
      run: async (reason) => {
        const answer = await ok(
          api.POST("/api/v1/assets/{asset_id}/unpublish", {
            params: path,
            body: { ...body, dry_run: false, ...(reason ? { reason } : {}) },
          }),
        );
        toast({
          kind: "done",
          text: `Unpublished: ${counted(answer.file_count, "file")}, ${bytesText(answer.size_bytes)}.`,
        });
        onDone();
      },
    });
  };
  return (
    <div class="decisions">
      {children}
      {waits && may("reviewer") ? (
        <>
          {notApproved ? (
            <p class="faint">{notApproved}</p>
          ) : (
            <Button look="primary" icon="check" onClick={() => setOpen(true)}>
              Approve
            </Button>
          )}
          <Button look="danger" icon="cross" onClick={reject}>
            Reject
          </Button>
        </>
      ) : null}
      {!inbox && isApproved && may("reviewer") ? (
        <>
          {subject.clearance === "restricted" ? (
            <Button icon="eye" onClick={clear}>
              Make public
            </Button>
          ) : null}
          <Button look="danger" icon="stop" onClick={revoke}>
            Revoke
          </Button>
        </>
      ) : null}
      {!inbox && may("operate") && subject.status === "completed" && !subject.unpublished_at ? (
        <>
          {served !== subject.revision &&
          !["rejected", "revoked", "superseded", "pending_review"].includes(subject.review_state) ? (
            <Button icon="retry" onClick={rollBack}>
              Roll back to this
            </Button>
          ) : null}
          <Button look="danger" icon="trash" onClick={unpublish}>
            Unpublish
          </Button>
        </>
      ) : null}
      {open ? <ApproveDialog subject={subject} served={served} onClose={() => setOpen(false)} onDone={onDone} /> : null}
    </div>
  );
}

const servedText = (served: number | null): string =>
  served ? `Revision ${served} stays served.` : "Nothing is served until one is approved.";

function UnpublishPlan({ plan, isApproved }: { plan: Model<"UnpublishAnswer">; isApproved: boolean }): JSX.Element {
  if (plan.status === "nothing_left") return <p>Nothing is left to delete: it was unpublished before.</p>;
  return (
    <>
      <p>
        Deletes <strong>{counted(plan.file_count, "file")}</strong> ({bytesText(plan.size_bytes)}) and takes{" "}
        <strong>{counted(plan.item_count, "catalogue item")}</strong> away. It is never served again, and cannot be
        undone.
        {plan.shared_file_count ? ` ${counted(plan.shared_file_count, "file")} also used by others stay.` : ""}
        {isApproved ? " This content is approved; the approval is revoked." : ""}
      </p>
      <ul class="plan-files">
        {plan.files.slice(0, 6).map((file) => (
          <li key={`${file.zone}/${file.container}/${file.path}`}>
            <code>
              {file.zone}/{file.container}/{file.path}
            </code>{" "}
            <span class="faint">{file.shared_with ? "stays" : bytesText(file.size_bytes)}</span>
          </li>
        ))}
        {plan.files.length > 6 ? <li class="faint">and {plan.files.length - 6} more</li> : null}
      </ul>
      {plan.notices.map((notice) => (
        <p key={notice}>{notice}</p>
      ))}
    </>
  );
}

interface ApproveProps {
  subject: Subject;
  served: number | null;
  onClose: () => void;
  onDone: () => void;
}

/** An approval says who may see the content, so it asks. */
function ApproveDialog({ subject, served, onClose, onDone }: ApproveProps): JSX.Element {
  const [clearance, setClearance] = useState<"public" | "restricted">();
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const id = useId();
  const approve = async () => {
    if (!clearance) return;
    setBusy(true);
    setError(undefined);
    try {
      const body = {
        content_hash: subject.content_hash ?? "",
        clearance,
        ...(reason.trim() ? { reason: reason.trim() } : {}),
      };
      say(
        await ok(api.POST("/api/v1/assets/{asset_id}/revisions/{revision}/approve", { params: pathOf(subject), body })),
      );
      onClose();
      onDone();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Approve revision ${subject.revision}`}
      size="small"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Not yet</Button>
          <Button look="primary" icon="check" busy={busy} disabled={!clearance} onClick={approve}>
            Approve
          </Button>
        </>
      }
    >
      <p>
        It is served from now on{served ? `, instead of revision ${served}` : ""}. You approve the content{" "}
        <code title={subject.content_hash ?? ""}>{subject.content_hash?.slice(0, 16)}</code>; if the revision has
        another by then, the approval is refused.
      </p>
      <fieldset class="choices">
        <legend>Who may see it?</legend>
        {(
          [
            ["public", "Everybody", "External services may publish it."],
            ["restricted", "Official use only", "It can be made public later."],
          ] as const
        ).map(([value, label, note]) => (
          <label key={value} class="choice">
            <input
              type="radio"
              name={id}
              value={value}
              checked={clearance === value}
              onChange={() => setClearance(value)}
            />
            <span>
              <strong>{label}</strong> <span class="faint">{note}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div class="field">
        <label for={`${id}-reason`}>Note (optional)</label>
        <textarea
          id={`${id}-reason`}
          rows={2}
          maxLength={500}
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </div>
      {error ? <ErrorBox error={error} /> : null}
    </Dialog>
  );
}

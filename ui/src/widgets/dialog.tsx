/** Dialogs on the browser's own `<dialog>`: focus stays inside, Escape closes, the rest of the page rests. */
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type ApiError, asApiError } from "../core/api";
import { Button } from "./button";
import { ErrorBox, Loading } from "./states";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons, right-aligned below. */
  footer?: ComponentChildren;
  size?: "small" | "medium" | "large";
}

/** Open while it is drawn: `{open ? <Dialog …/> : null}`. */
export function Dialog({ title, onClose, children, footer, size = "medium" }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the key is Escape, which the browser turns into `cancel`
    <dialog
      ref={element}
      class={`dialog dialog-${size}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <Button look="quiet" icon="cross" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {footer ? <footer class="dialog-foot">{footer}</footer> : null}
      </div>
    </dialog>
  );
}

export interface Confirmation {
  title: string;
  /** What will happen, in sentences and figures; a promise shows a skeleton until it is known. */
  preview: JSX.Element | string | (() => Promise<JSX.Element | string>);
  /** The words on the button: "Cancel 3 jobs". */
  action: string;
  danger?: boolean;
  /** Ask for a reason; `required` refuses an empty one. */
  reason?: "optional" | "required";
  /** Runs when confirmed. The dialog stays open while it runs, and shows its error. */
  run: (reason: string) => Promise<void>;
}

const asked = signal<Confirmation | undefined>(undefined);

/** Show what would happen, and do it only if the person agrees. */
export function confirm(confirmation: Confirmation): void {
  asked.value = confirmation;
}

/** Drawn once, by the shell. */
export function ConfirmHost(): JSX.Element | null {
  const question = asked.value;
  return question ? <Confirm key={question} question={question} onClose={() => (asked.value = undefined)} /> : null;
}

function Confirm({ question, onClose }: { question: Confirmation; onClose: () => void }): JSX.Element {
  const { preview } = question;
  const [shown, setShown] = useState<ComponentChildren>(typeof preview === "function" ? undefined : preview);
  const [ready, setReady] = useState(typeof preview !== "function");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const [reason, setReason] = useState("");
  const id = useId();
  useEffect(() => {
    if (typeof preview !== "function") return;
    preview().then(
      (children) => {
        setShown(children);
        setReady(true);
      },
      (problem: unknown) => setError(asApiError(problem)),
    );
  }, [preview]);
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await question.run(reason.trim());
      onClose();
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  const lacksReason = question.reason === "required" && !reason.trim();
  return (
    <Dialog
      title={question.title}
      onClose={onClose}
      size="small"
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button
            look={question.danger ? "danger" : "primary"}
            onClick={run}
            busy={busy}
            disabled={!ready || lacksReason}
          >
            {question.action}
          </Button>
        </>
      }
    >
      {ready ? shown : error ? null : <Loading what="the preview" />}
      {question.reason ? (
        <div class="field">
          <label for={id}>Reason{question.reason === "optional" ? " (optional)" : ""}</label>
          <textarea
            id={id}
            rows={2}
            maxLength={500}
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </div>
      ) : null}
      {error ? <ErrorBox error={error} /> : null}
    </Dialog>
  );
}

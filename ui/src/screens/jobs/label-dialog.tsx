/** Labels of several jobs, with how many of them change. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { api, counted, type Labels, MOST_LABELS, ok, readLabels, sameLabels, withChanges } from "~/core";
import { Button, Dialog, LabelList } from "~/widgets";
import { each, report } from "./bulk";
import type { Job } from "./rows";

interface LabelDialogProps {
  jobs: readonly Job[];
  onClose: () => void;
  /** The labels that jobs have now, by job. */
  onDone: (labels: ReadonlyMap<string, Labels>) => void;
}

export function LabelDialog({ jobs, onClose, onDone }: LabelDialogProps): JSX.Element {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const id = useId();
  const { problem, ...changes } = readLabels(text, true);
  const after = jobs.map((job) => ({ job, labels: withChanges(job.labels ?? {}, changes) }));
  const full = after.filter(({ labels }) => Object.keys(labels).length > MOST_LABELS);
  const changing = after.filter((one) => !full.includes(one) && !sameLabels(one.job.labels ?? {}, one.labels));
  const same = jobs.length - full.length - changing.length;
  const known = Object.assign({}, ...jobs.map((job) => job.labels ?? {})) as Labels;

  const run = async () => {
    setBusy(true);
    const labels = new Map<string, Labels>();
    const problems = await each(changing, async ({ job }) => {
      const path = { job_id: job.job_id };
      const answer = await ok(api.POST("/api/v1/jobs/{job_id}/labels", { params: { path }, body: changes }));
      labels.set(job.job_id, answer.labels);
    });
    report(labels.size, "Labelled", problems);
    onClose();
    onDone(labels);
  };

  return (
    <Dialog
      title={`Label ${counted(jobs.length, "job")}`}
      onClose={onClose}
      size="small"
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" onClick={run} busy={busy} disabled={problem !== undefined || changing.length === 0}>
            Label {counted(changing.length, "job")}
          </Button>
        </>
      }
    >
      <div class="field">
        <label for={id}>Labels, one per line</label>
        <textarea
          id={id}
          class="mono"
          rows={4}
          spellcheck={false}
          placeholder={"aoi=oslo\nteam-"}
          value={text}
          aria-invalid={problem !== undefined}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <p class="faint small">
          <code>key=value</code> puts a label on or changes it, <code>key-</code> takes it off.
        </p>
        {problem ? <p class="field-problem">{problem}</p> : null}
      </div>
      {Object.keys(known).length > 0 ? (
        <p class="small">
          They have: <LabelList labels={known} />
        </p>
      ) : null}
      <p role="status">
        {counted(changing.length, "job changes", "jobs change")}
        {same > 0 ? `; ${counted(same, "stays as it is", "stay as they are")}` : ""}
        {full.length > 0 ? `; ${counted(full.length, "would have", "would have")} more than ${MOST_LABELS} labels` : ""}
        .
      </p>
    </Dialog>
  );
}

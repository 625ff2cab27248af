/** Labels of the job, to find it by. */
import type { JSX } from "preact";
import { Section } from "~/widgets";

interface LabelFieldProps {
  text: string;
  problem: string | undefined;
  onText: (text: string) => void;
}

export function LabelField({ text, problem, onText }: LabelFieldProps): JSX.Element {
  return (
    <Section title="Labels" aside={<span>to find the job by</span>}>
      <div class="field">
        <label for="submit-labels">One per line, as key=value</label>
        <textarea
          id="submit-labels"
          class="mono"
          rows={2}
          spellcheck={false}
          placeholder="aoi=oslo"
          value={text}
          aria-invalid={problem !== undefined}
          onInput={(event) => onText(event.currentTarget.value)}
        />
        {problem ? <p class="field-problem">{problem}</p> : null}
      </div>
    </Section>
  );
}

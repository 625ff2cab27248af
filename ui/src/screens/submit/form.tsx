/** The form of one workflow. The server checks what was typed, by a dry run, as it would check the submission. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type ApiError,
  api,
  asApiError,
  countText,
  labelTexts,
  type Model,
  may,
  navigate,
  ok,
  readLabels,
  to,
  toast,
  useQuery,
  useResource,
} from "~/core";
import { Button, Code, confirm, ErrorBox, Section, Tabs } from "~/widgets";
import { Field } from "./field";
import { FilePicker } from "./file-picker";
import { fieldOf, type Input, inputsOf, sentValues, type Values, widgetOf } from "./inputs";
import { LabelField } from "./label-field";
import { Presets } from "./presets";
import { DryRun } from "./preview";
import { cliText, curlText, type Order, pythonText } from "./snippets";
import { TextEditor } from "./text-editor";

const CHECK_AFTER_MS = 350;
/** Above it somebody may have pasted the wrong list. */
const MOST_UNASKED = 1_000;
type Preview = Model<"JobPreview"> | Model<"OrderPreview">;

export function SubmitForm({ workflow }: { workflow: Model<"WorkflowDetail"> }): JSX.Element {
  const { workflow_id } = workflow;
  const inputs = useMemo(() => inputsOf(workflow.definition), [workflow]);
  const [values, setValues] = useState<Values>({});
  const [touched, setTouched] = useState(false);
  const [platform_id, setPlatform] = useQuery("platform");
  const [refs, setRefs] = useState<Record<string, string>>({});
  const [labelText, setLabelText] = useState("");
  const [picking, setPicking] = useState<Input>();
  const [preview, setPreview] = useState<Preview>();
  const [checkError, setCheckError] = useState<ApiError>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const key = useRef<string>(crypto.randomUUID());
  const [from] = useQuery("from");
  const produces = (workflow.definition as { produces?: string | null }).produces;
  const platforms = useResource(
    async (signal) => (produces ? (await ok(api.GET("/api/v1/platforms", { signal }))).platforms : []),
    [produces],
  );
  const platform = platforms.data.value?.find((one) => one.platform_id === platform_id);
  const sent = sentValues(inputs, values);
  const { put: labels, problem: labelProblem } = readLabels(labelText, false);
  const order: Order = { workflow_id, values: sent, platform_id: platform ? platform_id : undefined, refs, labels };
  const text = JSON.stringify(order);

  // A link such as ?from=JOB takes over the parameters of an earlier job.
  useEffect(() => {
    if (!from) return;
    ok(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: from } } })).then(
      (job) => {
        setValues(job.input_params as Values);
        setLabelText(labelTexts(job.labels ?? {}).join("\n"));
        setTouched(true);
      },
      (problem: unknown) => setError(asApiError(problem)),
    );
  }, [from]);

  // the text stands for all that is sent
  useEffect(() => {
    const control = new AbortController();
    const timer = window.setTimeout(async () => {
      try {
        const body = { workflow_id, input_params: sent, labels, dry_run: true, priority: 0 };
        const answer = platform
          ? await ok(
              api.POST("/api/v1/submit", {
                body: { ...body, supersede: false, platform_id, platform_refs: refs },
                signal: control.signal,
              }),
            )
          : await ok(api.POST("/api/v1/jobs", { body, signal: control.signal }));
        setPreview("dry_run" in answer ? (answer as Preview) : undefined);
        setCheckError(undefined);
      } catch (problem) {
        if (!control.signal.aborted) setCheckError(asApiError(problem));
      }
    }, CHECK_AFTER_MS);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
  }, [text]);

  const set = (name: string, value: unknown) => {
    setTouched(true);
    setValues((before) => ({ ...before, [name]: value }));
  };
  const problems = preview?.problems ?? [];
  const problemsOf = (input: Input): string[] => {
    const isUntouched = !touched && values[input.name] === undefined;
    return isUntouched ? [] : problems.filter((one) => fieldOf(one.pointer) === input.name).map((one) => one.detail);
  };
  const names = new Set(inputs.map((input) => input.name));
  const others = problems.filter((one) => !names.has(fieldOf(one.pointer) ?? ""));

  const send = async () => {
    setTouched(true);
    setBusy(true);
    setError(undefined);
    try {
      const body = {
        ...{ workflow_id, input_params: sent, labels },
        ...{ idempotency_key: key.current, dry_run: false, priority: 0 },
      };
      const job_id = platform
        ? (
            (await ok(
              api.POST("/api/v1/submit", {
                body: { ...body, supersede: false, platform_id, platform_refs: refs },
              }),
            )) as Model<"OrderAccepted">
          ).job_id
        : ((await ok(api.POST("/api/v1/jobs", { body }))) as Model<"JobView">).job_id;
      key.current = crypto.randomUUID();
      toast({
        kind: "done",
        text: `${workflow.name} was submitted.`,
        ...(job_id ? { to: to`/jobs/${job_id}`, linkText: "Open the job" } : {}),
      });
      navigate(job_id ? to`/jobs/${job_id}` : "/jobs");
    } catch (problem) {
      setError(asApiError(problem));
      setBusy(false);
    }
  };
  const tasks = preview?.estimate?.tasks ?? 0;
  const ask = () => {
    if (tasks <= MOST_UNASKED) return void send();
    confirm({
      title: `Start ${countText(tasks)} tasks?`,
      preview: (
        <p>
          The job would have {countText(tasks)} tasks. It can be cancelled at any time; what has finished by then stays.
        </p>
      ),
      action: `Start ${countText(tasks)} tasks`,
      run: send,
    });
  };
  const picker = picking ? widgetOf(picking) : undefined;
  const zoneInput = inputs.find((input) => widgetOf(input) === "zone");
  const zoneNow = String(values.zone ?? zoneInput?.default ?? "bronze") as Model<"Zone">;
  const containerInput = inputs.find((input) => widgetOf(input) === "container");

  return (
    <form
      class="submit"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (preview?.valid && !labelProblem) ask();
      }}
    >
      <div class="submit-main">
        <Tabs
          label="Ways to write the parameters"
          param="as"
          tabs={[
            {
              id: "form",
              label: "Form",
              panel: () => (
                <Section
                  title="Parameters"
                  aside={
                    <Presets
                      workflow_id={workflow_id}
                      onChoose={(next) => {
                        setValues(next);
                        setTouched(true);
                      }}
                    />
                  }
                >
                  <div class="fields">
                    {inputs.length === 0 ? <p class="faint">This workflow takes no parameters.</p> : null}
                    {inputs.map((input) => {
                      const widget = widgetOf(input);
                      const canPick = widget === "container" || widget === "blob";
                      return (
                        <Field
                          key={input.name}
                          input={input}
                          value={values[input.name]}
                          onChange={(value) => set(input.name, value)}
                          problems={problemsOf(input)}
                          onPick={canPick ? () => setPicking(input) : undefined}
                        />
                      );
                    })}
                  </div>
                </Section>
              ),
            },
            {
              id: "yaml",
              label: "YAML",
              panel: () => (
                <TextEditor
                  language="yaml"
                  values={sent}
                  onValues={(next) => {
                    setValues(next);
                    setTouched(true);
                  }}
                />
              ),
            },
            {
              id: "json",
              label: "JSON",
              panel: () => (
                <TextEditor
                  language="json"
                  values={sent}
                  onValues={(next) => {
                    setValues(next);
                    setTouched(true);
                  }}
                />
              ),
            },
            {
              id: "code",
              label: "As code",
              panel: () => (
                <div class="snippets">
                  <Section title="Command line">
                    <Code text={cliText(order)} label="Command" />
                  </Section>
                  <Section title="curl">
                    <Code text={curlText(order)} label="curl" />
                  </Section>
                  <Section title="Python">
                    <Code text={pythonText(order)} label="Python" />
                  </Section>
                </div>
              ),
            },
          ]}
        />
        {produces && (platforms.data.value?.length ?? 0) > 0 ? (
          <Section title="For whom" aside={<span>a {produces} of a platform becomes an asset with revisions</span>}>
            <div class="fields">
              <div class="field">
                <label for="submit-platform">Platform</label>
                <select
                  id="submit-platform"
                  value={platform ? platform_id : ""}
                  onChange={(event) => setPlatform(event.currentTarget.value || null)}
                >
                  <option value="">None: only a job</option>
                  {platforms.data.value
                    ?.filter((one) => one.active)
                    .map((one) => (
                      <option key={one.platform_id} value={one.platform_id}>
                        {one.platform_id}
                      </option>
                    ))}
                </select>
              </div>
              {platform
                ? [
                    ...platform.identity_refs,
                    ...platform.optional_refs,
                    ...(platform.version_ref ? [platform.version_ref] : []),
                  ].map((name) => (
                    <div class="field" key={name}>
                      <label for={`submit-ref-${name}`}>
                        {name} {platform.identity_refs.includes(name) ? <span class="required">required</span> : null}
                      </label>
                      <input
                        id={`submit-ref-${name}`}
                        type="text"
                        value={refs[name] ?? ""}
                        onInput={(event) => {
                          const { [name]: _, ...rest } = refs;
                          const value = event.currentTarget.value;
                          setRefs(value ? { ...rest, [name]: value } : rest);
                        }}
                      />
                    </div>
                  ))
                : null}
            </div>
          </Section>
        ) : null}
        <LabelField text={labelText} problem={labelProblem} onText={setLabelText} />
      </div>
      <aside class="submit-side">
        <DryRun workflow={workflow} preview={preview} error={checkError} others={others} touched={touched} />
        {error ? <ErrorBox error={error} /> : null}
        <Button
          look="primary"
          icon="play"
          type="submit"
          class="button-large"
          busy={busy}
          disabled={!preview?.valid || labelProblem !== undefined || !may("submit")}
        >
          Submit
        </Button>
        {may("submit") ? null : <p class="faint">Submitting needs a key with the scope “submit”.</p>}
      </aside>
      {picking && picker ? (
        <FilePicker
          zone={zoneNow}
          container={containerInput ? String(values[containerInput.name] ?? "") || undefined : undefined}
          wanted={picker === "container" && !inputs.some((input) => widgetOf(input) === "blob") ? "container" : "file"}
          onClose={() => setPicking(undefined)}
          onChoose={(file) => {
            if (zoneInput) set(zoneInput.name, file.zone);
            if (containerInput) set(containerInput.name, file.container);
            const blob = picker === "blob" ? picking : inputs.find((input) => widgetOf(input) === "blob");
            if (file.path && blob) set(blob.name, file.path);
          }}
        />
      ) : null}
    </form>
  );
}

/** One input of a workflow as a field: its words, its widget, and what the server says about it. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { type Bbox, BboxPicker, type Geometry } from "~/map";
import { Button } from "~/widgets";
import { type Input, limitsText, unitOf, widgetOf } from "./inputs";
import { CrsField, DurationField, type FieldShared, RangeField, TableField } from "./more-fields";
import { cellsOf } from "./typed-text";

interface FieldProps {
  input: Input;
  value: unknown;
  onChange: (value: unknown) => void;
  /** What the server says is wrong with it. */
  problems: readonly string[];
  onPick?: (() => void) | undefined;
}

export function Field({ input, value, onChange, problems, onPick }: FieldProps): JSX.Element {
  const id = useId();
  const widget = widgetOf(input);
  const isWrong = problems.length > 0;
  const limits = limitsText(input);
  const described = [input.description || limits ? `${id}-hint` : "", isWrong ? `${id}-problem` : ""]
    .filter(Boolean)
    .join(" ");
  const shared = { id, "aria-invalid": isWrong, "aria-describedby": described || undefined, required: input.required };
  const isGroup = ["bbox", "area", "choices", "range"].includes(widget);
  const title = (
    <>
      {input.name} {input.required ? <span class="required">required</span> : null}
    </>
  );
  return (
    <div class={`field field-${widget}`} data-field={input.name}>
      {isGroup ? (
        <span class="field-label" id={`${id}-label`}>
          {title}
        </span>
      ) : (
        <label for={id}>{title}</label>
      )}
      <Control widget={widget} input={input} value={value} onChange={onChange} shared={shared} onPick={onPick} />
      {input.description || limits ? (
        <p class="field-hint" id={`${id}-hint`}>
          {[input.description, limits && `(${limits})`].filter(Boolean).join(" ")}
        </p>
      ) : null}
      {isWrong ? (
        <p class="field-problem" id={`${id}-problem`}>
          {problems.join(" ")}
        </p>
      ) : null}
    </div>
  );
}

interface ControlProps {
  widget: ReturnType<typeof widgetOf>;
  input: Input;
  value: unknown;
  onChange: (value: unknown) => void;
  shared: FieldShared;
  onPick?: (() => void) | undefined;
}

function Control({ widget, input, value, onChange, shared, onPick }: ControlProps): JSX.Element {
  const ghost =
    input.default === null || input.default === undefined
      ? ""
      : typeof input.default === "string"
        ? input.default
        : JSON.stringify(input.default);
  const text = value === undefined || value === null ? "" : String(value);
  const take = (next: string) => onChange(next === "" ? undefined : next);
  switch (widget) {
    case "choice":
    case "zone":
      return (
        <select
          {...shared}
          value={JSON.stringify(value ?? input.default ?? "")}
          onChange={(event) =>
            onChange(event.currentTarget.value === '""' ? undefined : JSON.parse(event.currentTarget.value))
          }
        >
          {input.required && input.default === null ? <option value='""'>Choose</option> : null}
          {!input.required && (input.default === null || input.default === undefined) ? (
            <option value='""'>as the workflow decides</option>
          ) : null}
          {(input.enum ?? []).map((one) => (
            <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
              {String(one)}
              {one === input.default ? " (default)" : ""}
            </option>
          ))}
        </select>
      );
    case "switch":
      return (
        <span class="check-line">
          <input
            {...shared}
            type="checkbox"
            checked={Boolean(value ?? input.default)}
            onChange={(event) => onChange(event.currentTarget.checked)}
          />
          <span class="faint">{(value ?? input.default) ? "yes" : "no"}</span>
        </span>
      );
    case "number":
      return (
        <span class="with-unit">
          <input
            {...shared}
            type="number"
            step={input.type === "integer" ? "1" : "any"}
            placeholder={ghost}
            value={text}
            {...(input.minimum === null ? {} : { min: input.minimum })}
            {...(input.maximum === null ? {} : { max: input.maximum })}
            onInput={(event) =>
              onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)
            }
          />
          {unitOf(input) ? <span class="faint small">{unitOf(input)}</span> : null}
        </span>
      );
    case "duration":
      return <DurationField input={input} value={value} onChange={onChange} shared={shared} />;
    case "crs":
      return <CrsField input={input} value={value} onChange={onChange} shared={shared} />;
    case "range":
      return <RangeField input={input} value={value} onChange={onChange} shared={shared} />;
    case "table":
      return <TableField input={input} value={value} onChange={onChange} shared={shared} />;
    case "choices": {
      const chosen = Array.isArray(value) ? value : Array.isArray(input.default) ? input.default : [];
      return (
        <fieldset class="choices-line" aria-describedby={shared["aria-describedby"]}>
          <legend class="sr-only">{input.name}</legend>
          {(input.items?.enum ?? []).map((one) => (
            <label key={String(one)} class="check-line">
              <input
                type="checkbox"
                checked={chosen.includes(one)}
                onChange={(event) =>
                  onChange(event.currentTarget.checked ? [...chosen, one] : chosen.filter((other) => other !== one))
                }
              />
              {String(one)}
            </label>
          ))}
        </fieldset>
      );
    }
    case "list":
      return <ListField input={input} value={value} onChange={onChange} shared={shared} />;
    case "object":
      return <JsonField value={value ?? undefined} ghost={ghost} onChange={onChange} shared={shared} />;
    case "time":
      return (
        <span class="with-button">
          <input
            {...shared}
            type="text"
            placeholder={ghost || `such as ${input.format === "date" ? "2026-05-01" : "2026-05-01T00:00:00Z"}`}
            value={text}
            onInput={(event) => take(event.currentTarget.value)}
          />
          <input
            type={input.format === "date" ? "date" : "datetime-local"}
            aria-label={`${input.name}: choose in UTC`}
            value={text.slice(0, input.format === "date" ? 10 : 16)}
            onInput={(event) =>
              take(
                event.currentTarget.value &&
                  (input.format === "date" ? event.currentTarget.value : `${event.currentTarget.value}:00Z`),
              )
            }
          />
        </span>
      );
    case "bbox":
      return (
        <BboxPicker
          label={input.name}
          bbox={isBox(value) ? value : undefined}
          onBbox={(box) => onChange(box ? [...box] : undefined)}
          height="18rem"
        />
      );
    case "area":
      return (
        <BboxPicker
          label={input.name}
          area={isGeometry(value) ? value : undefined}
          onArea={(area) => onChange(area)}
          height="18rem"
        />
      );
    case "container":
    case "blob":
      return (
        <span class="with-button">
          <input
            {...shared}
            type="text"
            placeholder={ghost}
            value={text}
            spellcheck={false}
            onInput={(event) => take(event.currentTarget.value)}
          />
          {onPick ? (
            <Button icon="search" onClick={onPick}>
              Browse
            </Button>
          ) : null}
        </span>
      );
    case "secret":
      return (
        <input
          {...shared}
          type="password"
          autocomplete="off"
          placeholder="never shown again"
          value={text}
          onInput={(event) => take(event.currentTarget.value)}
        />
      );
    case "long":
      return (
        <textarea
          {...shared}
          rows={3}
          placeholder={ghost}
          value={text}
          onInput={(event) => take(event.currentTarget.value)}
        />
      );
    default:
      return (
        <input
          {...shared}
          type="text"
          placeholder={ghost}
          value={text}
          spellcheck={false}
          onInput={(event) => take(event.currentTarget.value)}
        />
      );
  }
}

const isBox = (value: unknown): value is Bbox =>
  Array.isArray(value) && value.length === 4 && value.every((one) => typeof one === "number" && Number.isFinite(one));
const isGeometry = (value: unknown): value is Geometry => {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  return type === "Polygon" || type === "MultiPolygon";
};

type Shared = FieldShared;

/** One entry per line; a column pasted from a table works as it is. */
function ListField({
  input,
  value,
  onChange,
  shared,
}: {
  input: Input;
  value: unknown;
  onChange: (value: unknown) => void;
  shared: Shared;
}): JSX.Element {
  const [draft, setDraft] = useState<string>();
  const isNumbers = input.items?.type === "number" || input.items?.type === "integer";
  const write = (list: unknown) =>
    Array.isArray(list) ? list.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join("\n") : "";
  const read = (text: string) => {
    const lines = text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter(Boolean);
    return lines.length === 0
      ? undefined
      : isNumbers
        ? lines.map((line) => (Number.isFinite(Number(line)) ? Number(line) : line))
        : lines;
  };
  return (
    <textarea
      {...shared}
      rows={3}
      spellcheck={false}
      placeholder={
        Array.isArray(input.default) && input.default.length > 0
          ? write(input.default)
          : "one per line, or a row or column of a table"
      }
      value={draft ?? write(value)}
      onPaste={(event) => {
        // A row of a spreadsheet or of a CSV file: its cells are the entries.
        const pasted = event.clipboardData?.getData("text") ?? "";
        const [row, ...others] = cellsOf(pasted);
        if (!row || others.length > 0 || row.length < 2 || event.currentTarget.value.trim() !== "") return;
        event.preventDefault();
        onChange(read(row.join("\n")));
      }}
      onInput={(event) => {
        setDraft(event.currentTarget.value);
        onChange(read(event.currentTarget.value));
      }}
      onBlur={() => setDraft(undefined)}
    />
  );
}

function JsonField({
  value,
  ghost,
  onChange,
  shared,
}: {
  value: unknown;
  ghost: string;
  onChange: (value: unknown) => void;
  shared: Shared;
}): JSX.Element {
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState("");
  return (
    <>
      <textarea
        {...shared}
        rows={3}
        spellcheck={false}
        class="mono"
        aria-invalid={shared["aria-invalid"] || problem !== ""}
        placeholder={ghost || "{}"}
        value={draft ?? (value === undefined ? "" : JSON.stringify(value, null, 2))}
        onInput={(event) => {
          const text = event.currentTarget.value;
          setDraft(text);
          try {
            onChange(text.trim() === "" ? undefined : JSON.parse(text));
            setProblem("");
          } catch {
            setProblem("This is not JSON yet.");
          }
        }}
        onBlur={() => {
          if (!problem) setDraft(undefined);
        }}
      />
      {problem ? <p class="field-problem">{problem}</p> : null}
    </>
  );
}

/** Chips that can be chosen or removed, and the bar in which they stand. */
import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { Icon } from "./icon";
import type { Tone } from "./status";

interface ChipProps {
  children: ComponentChildren;
  chosen?: boolean;
  onToggle?: () => void;
  /** Shows a cross. */
  onRemove?: () => void;
  count?: number | string | undefined;
  tone?: Tone;
}

export function Chip({ children, chosen = false, onToggle, onRemove, count, tone }: ChipProps): JSX.Element {
  if (onRemove) {
    return (
      <span class={`chip chip-set tone-${tone ?? "off"}`}>
        {children}
        <button type="button" class="chip-remove" aria-label="Remove this filter" onClick={onRemove}>
          <Icon name="cross" size={12} />
        </button>
      </span>
    );
  }
  return (
    <button type="button" class={`chip tone-${tone ?? "off"}`} aria-pressed={chosen} onClick={onToggle}>
      {children}
      {count === undefined ? null : <span class="count">{count}</span>}
    </button>
  );
}

interface FilterBarProps {
  /** The query as text, such as `status:failed workflow:ndvi since:2h`. */
  text: string;
  onChange: (text: string) => void;
  placeholder: string;
  label: string;
  /** What is wrong with the text; shown below. */
  problem?: string | undefined;
  /** Words to complete: `status:failed`, … */
  suggestions?: readonly string[];
  children?: ComponentChildren;
}

/** A line for a query, with `f` to get there. Changes take effect on Enter and on leaving the field. */
export function FilterBar({
  text,
  onChange,
  placeholder,
  label,
  problem,
  suggestions = [],
  children,
}: FilterBarProps): JSX.Element {
  const id = useId();
  const [draft, setDraft] = useState<string>();
  const apply = () => {
    if (draft !== undefined && draft !== text) onChange(draft);
    setDraft(undefined);
  };
  useKeys(() => [{ keys: "f", label: "Filter", group: "List", run: () => document.getElementById(id)?.focus() }], [id]);
  return (
    <search class="filter-bar">
      <form
        class="filter-line"
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        <Icon name="filter" />
        <input
          id={id}
          type="search"
          aria-label={label}
          aria-invalid={problem !== undefined}
          aria-describedby={problem ? `${id}-problem` : undefined}
          placeholder={placeholder}
          value={draft ?? text}
          list={suggestions.length ? `${id}-list` : undefined}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => setDraft(event.currentTarget.value)}
          onBlur={apply}
          onSearch={apply}
        />
        {suggestions.length ? (
          <datalist id={`${id}-list`}>
            {suggestions.map((word) => (
              <option key={word} value={word} />
            ))}
          </datalist>
        ) : null}
      </form>
      {problem ? (
        <p class="field-problem" id={`${id}-problem`}>
          {problem}
        </p>
      ) : null}
      {children ? <div class="chips">{children}</div> : null}
    </search>
  );
}

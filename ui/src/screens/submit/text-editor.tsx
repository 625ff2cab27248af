/** The parameters as text. What can be read goes to the form; what cannot says where and why, and stays as typed. */
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Values } from "./inputs";
import { readYaml, writeYaml } from "./yaml";

interface TextEditorProps {
  language: "yaml" | "json";
  values: Values;
  onValues: (values: Values) => void;
}

function read(text: string, language: "yaml" | "json"): Values {
  const value = language === "yaml" ? readYaml(text) : text.trim() === "" ? {} : JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error("Parameters are names with values.");
  return value as Values;
}

export function TextEditor({ language, values, onValues }: TextEditorProps): JSX.Element {
  const write = () =>
    language === "yaml" ? (Object.keys(values).length ? writeYaml(values) : "") : JSON.stringify(values, null, 2);
  const [text, setText] = useState(write);
  const [problem, setProblem] = useState("");
  const own = useRef(false);
  const id = useId();
  const outside = JSON.stringify(values);
  // only changes from elsewhere replace what is typed
  useEffect(() => {
    if (!own.current) setText(write());
    own.current = false;
  }, [outside]);
  return (
    <div class="field">
      <label for={id}>Parameters as {language === "yaml" ? "YAML" : "JSON"}</label>
      <textarea
        id={id}
        class="mono text-editor"
        rows={18}
        spellcheck={false}
        value={text}
        aria-invalid={problem !== ""}
        aria-describedby={`${id}-problem`}
        onInput={(event) => {
          setText(event.currentTarget.value);
          try {
            const next = read(event.currentTarget.value, language);
            own.current = true;
            setProblem("");
            onValues(next);
          } catch (error) {
            setProblem(error instanceof Error ? error.message : String(error));
          }
        }}
      />
      <p class="field-problem" id={`${id}-problem`} role="status">
        {problem}
      </p>
    </div>
  );
}

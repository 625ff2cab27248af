/** What differs between two texts: in one column, or the old one beside the new one where there is room for both. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { counted, useQuery } from "~/core";
import { Button, CopyButton, Empty, useMedia } from "~/widgets";
import { type DiffLine, type DiffPair, diffLines, folded, middles, paired } from "./diff";

const ROOMY = "(min-width: 56rem)";
const SIGNS = { same: " ", gone: "−", new: "+" };

interface DiffProps {
  before: string;
  after: string;
  /** What stands above the columns. */
  titles?: [before: string, after: string];
}

export function Diff({ before, after, titles = ["Before", "After"] }: DiffProps): JSX.Element {
  const [all, setAll] = useQuery("whole", "");
  const [look, setLook] = useQuery("diff", "");
  const isRoomy = useMedia(ROOMY);
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const shown = all ? lines : folded(lines);
  const gone = lines.filter((line) => line.kind === "gone").length;
  const fresh = lines.filter((line) => line.kind === "new").length;
  const isUnified = look === "unified" || !isRoomy;
  if (gone + fresh === 0)
    return (
      <Empty title="They mean the same" icon="check">
        No line of the definition differs.
      </Empty>
    );
  return (
    <section class="card definition" aria-label="Changes">
      <div class="pane-tools small soft">
        <span>
          {counted(fresh, "line")} added, {counted(gone, "line")} removed
        </span>
        <button type="button" class="link" onClick={() => setAll(all ? null : "1")}>
          {all ? "Only the changes" : "All lines"}
        </button>
        <span class="spacer" />
        {isRoomy ? (
          <span class="row" role="group" aria-label="How the changes are shown">
            <Button look="quiet" pressed={!isUnified} onClick={() => setLook(null)}>
              Side by side
            </Button>
            <Button look="quiet" pressed={isUnified} onClick={() => setLook("unified")}>
              Unified
            </Button>
          </span>
        ) : null}
        <CopyButton text={after} label="Copy the new one" />
      </div>
      <div
        class="diff"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard
        tabIndex={0}
        role="group"
        aria-label="Changed lines"
        data-look={isUnified ? "unified" : "sides"}
      >
        {isUnified ? <Unified lines={shown} /> : <Sides lines={shown} titles={titles} />}
      </div>
    </section>
  );
}

const Fold = ({ count }: { count: number }) => <div class="diff-fold">{counted(count, "equal line")}</div>;

function Unified({ lines }: { lines: readonly (DiffLine | number)[] }): JSX.Element {
  return (
    <>
      {lines.map((line, index) =>
        typeof line === "number" ? (
          <Fold key={index} count={line} />
        ) : (
          <div key={index} class={`diff-line diff-${line.kind}`}>
            <span class="diff-number">{line.before ?? ""}</span>
            <span class="diff-number">{line.after ?? ""}</span>
            <span class="diff-sign">{SIGNS[line.kind]}</span>
            <code>{line.text}</code>
          </div>
        ),
      )}
    </>
  );
}

function Sides({ lines, titles }: { lines: readonly (DiffLine | number)[]; titles: [string, string] }): JSX.Element {
  return (
    <>
      <div class="diff-pair diff-titles">
        <span>{titles[0]}</span>
        <span>{titles[1]}</span>
      </div>
      {paired(lines).map((pair, index) =>
        typeof pair === "number" ? (
          <Fold key={index} count={pair} />
        ) : (
          <div key={index} class="diff-pair">
            <Side line={pair.before} number={pair.before?.before} pair={pair} />
            <Side line={pair.after} number={pair.after?.after} pair={pair} />
          </div>
        ),
      )}
    </>
  );
}

function Side(props: { line: DiffLine | undefined; number: number | undefined; pair: DiffPair }): JSX.Element {
  const { line, pair } = props;
  if (!line) return <div class="diff-side diff-none" />;
  const isChanged = pair.before?.kind === "gone" && pair.after?.kind === "new";
  const [head, middle, tail] = isChanged
    ? middles(line.text, (line === pair.before ? pair.after : pair.before)?.text ?? "")
    : [line.text, "", ""];
  return (
    <div class={`diff-side diff-${line.kind}`}>
      <span class="diff-number">{props.number}</span>
      <span class="diff-sign">{SIGNS[line.kind]}</span>
      <code>
        {head}
        {middle ? <mark>{middle}</mark> : null}
        {tail}
      </code>
    </div>
  );
}

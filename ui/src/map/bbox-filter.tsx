/** A filter by area for lists: a chip that says the box, and a dialog with a map to choose it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lazy } from "~/core/screen";
import { Button, Chip, Dialog } from "~/widgets";
import type { BboxPickerProps } from "./bbox-picker";
import { bboxText, bboxWords, parseBbox } from "./boxes";
import type { Bbox } from "./types";

const Picker = lazy<BboxPickerProps>(() => import("./bbox-picker"));

interface BboxFilterProps {
  /** `5.9,45.8,10.5,47.8`, as it stands in the address; empty for none. */
  value: string;
  onChange: (value: string | null) => void;
  /** What is filtered: "jobs". */
  what: string;
}

export function BboxFilter({ value, onChange, what }: BboxFilterProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState<Bbox>();
  const box = parseBbox(value);
  return (
    <>
      {box ? (
        <Chip onRemove={() => onChange(null)}>
          <button type="button" class="chip-words" onClick={() => setOpen(true)}>
            in {bboxWords(box)}
          </button>
        </Chip>
      ) : (
        <Button look="quiet" icon="map" onClick={() => setOpen(true)}>
          Area
        </Button>
      )}
      {open ? (
        <Dialog
          title={`Only ${what} in an area`}
          size="large"
          onClose={() => setOpen(false)}
          footer={
            <>
              <Button onClick={() => setOpen(false)}>Close</Button>
              <Button
                look="primary"
                disabled={!draft && !box}
                onClick={() => {
                  const chosen = draft ?? box;
                  onChange(chosen ? bboxText(chosen) : null);
                  setOpen(false);
                }}
              >
                Filter by this area
              </Button>
            </>
          }
        >
          <Picker label={`Area of the ${what}`} bbox={draft ?? box} onBbox={setDraft} height="26rem" />
        </Dialog>
      ) : null}
    </>
  );
}

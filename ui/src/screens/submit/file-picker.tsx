/** Choose a file in storage: zone, container, folder by folder. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, bytesText, type Model, ok, Resolved, useResource } from "~/core";
import { Button, Dialog, Empty, Icon, Time } from "~/widgets";

type Zone = Model<"Zone">;
const ZONES: readonly (readonly [Zone, string])[] = [
  ["bronze", "as it came in"],
  ["silver", "processed"],
  ["gold", "for others"],
];

export interface ChosenFile {
  zone: Zone;
  container: string;
  /** Missing if only a container is asked for. */
  path?: string;
}

interface FilePickerProps {
  zone: Zone;
  container?: string | undefined;
  /** `container`: choosing one is enough. */
  wanted: "file" | "container";
  onChoose: (file: ChosenFile) => void;
  onClose: () => void;
}

export function FilePicker({
  zone: firstZone,
  container: firstContainer,
  wanted,
  onChoose,
  onClose,
}: FilePickerProps): JSX.Element {
  const [zone, setZone] = useState<Zone>(firstZone);
  const [container, setContainer] = useState(wanted === "file" ? (firstContainer ?? "") : "");
  const [folder, setFolder] = useState("");
  const choose = (file: ChosenFile) => {
    onChoose(file);
    onClose();
  };
  const parts = folder ? folder.split("/") : [];
  return (
    <Dialog title={wanted === "file" ? "Choose a file" : "Choose a container"} onClose={onClose}>
      <div class="picker-bar">
        <fieldset class="picker-zones">
          <legend class="sr-only">Zone</legend>
          {ZONES.map(([name, note]) => (
            <Button
              key={name}
              pressed={zone === name}
              title={note}
              onClick={() => {
                setZone(name);
                setContainer("");
                setFolder("");
              }}
            >
              {name}
            </Button>
          ))}
        </fieldset>
        <nav class="picker-path" aria-label="Folder">
          <button
            type="button"
            onClick={() => {
              setContainer("");
              setFolder("");
            }}
          >
            {zone}
          </button>
          {container ? (
            <button type="button" onClick={() => setFolder("")}>
              {container}
            </button>
          ) : null}
          {parts.map((part, index) => (
            <button
              key={`${index}-${part}`}
              type="button"
              onClick={() => setFolder(parts.slice(0, index + 1).join("/"))}
            >
              {part}
            </button>
          ))}
        </nav>
      </div>
      {container ? (
        <Folder
          zone={zone}
          container={container}
          folder={folder}
          onFolder={setFolder}
          onFile={(path) => choose({ zone, container, path })}
        />
      ) : (
        <Containers
          zone={zone}
          onContainer={(name) => (wanted === "container" ? choose({ zone, container: name }) : setContainer(name))}
        />
      )}
    </Dialog>
  );
}

function Containers({ zone, onContainer }: { zone: Zone; onContainer: (name: string) => void }): JSX.Element {
  const list = useResource(
    async (signal) => (await ok(api.GET("/api/v1/storage/{zone}", { params: { path: { zone } }, signal }))).containers,
    [zone],
  );
  return (
    <Resolved
      resource={list}
      what="the containers"
      isEmpty={(names) => names.length === 0}
      empty={
        <Empty title={`The zone ${zone} has no containers`}>
          Put a file there first: <code>rmhdag storage upload FILE {zone}/CONTAINER/NAME</code>
        </Empty>
      }
    >
      {(names) => (
        <ul class="picker-list">
          {names.map((name) => (
            <li key={name}>
              <button type="button" onClick={() => onContainer(name)}>
                <Icon name="asset" /> {name}
              </button>
            </li>
          ))}
        </ul>
      )}
    </Resolved>
  );
}

interface FolderProps {
  zone: Zone;
  container: string;
  folder: string;
  onFolder: (folder: string) => void;
  onFile: (path: string) => void;
}

function Folder({ zone, container, folder, onFolder, onFile }: FolderProps): JSX.Element {
  const [text, setText] = useState("");
  const list = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/storage/{zone}/{container}", {
          params: { path: { zone, container }, query: { folder } },
          signal,
        }),
      ),
    [zone, container, folder],
  );
  return (
    <Resolved resource={list} what="the folder">
      {(view) => {
        const files = view.files.filter((file) => file.path.toLowerCase().includes(text.toLowerCase()));
        return (
          <>
            <input
              type="search"
              aria-label="Only files whose name has"
              placeholder="Only names with…"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
            {view.folders.length + files.length === 0 ? <Empty title="Nothing here" /> : null}
            <ul class="picker-list">
              {view.folders.map((name) => (
                <li key={`/${name}`}>
                  <button type="button" onClick={() => onFolder(folder ? `${folder}/${name}` : name)}>
                    <Icon name="right" /> {name}/
                  </button>
                </li>
              ))}
              {files.map((file) => (
                <li key={file.path}>
                  <button type="button" onClick={() => onFile(file.path)}>
                    <Icon name="log" /> <span class="picker-name">{file.path.split("/").at(-1)}</span>
                    <span class="faint num">{bytesText(file.size_bytes)}</span>
                    <span class="faint">
                      <Time at={file.modified_at} />
                    </span>
                  </button>
                </li>
              ))}
            </ul>
            {view.is_complete ? null : (
              <p class="faint">The folder has more; type its path by hand if it is not listed.</p>
            )}
          </>
        );
      }}
    </Resolved>
  );
}

/** Tasks and messages that were given up: why, what they held, and another chance or the end. */
import type { JSX } from "preact";
import {
  api,
  counted,
  Link,
  type Model,
  may,
  ok,
  place,
  Resolved,
  setQuery,
  shortId,
  to,
  toast,
  useKeys,
  useQuery,
  useResource,
} from "~/core";
import { Button, Chip, Code, confirm, Empty, Facts, Section, Status, Table, Time } from "~/widgets";

type Letter = Model<"DeadLetterSummary">;
type Detail = Model<"DeadLetterDetail">;

const MOST = 500;
const REASONS: Record<string, string> = {
  lease_lost: "its workers died of it",
  malformed: "the message could not be read",
  catalogue: "the catalogue refused it",
  service_call: "the external service did not accept it",
  file_deletion: "a file could not be deleted",
};
export const reasonText = (reason: string): string => REASONS[reason] ?? reason.replaceAll("_", " ");

/** The address of a letter in the list as it is filtered now. */
function letterTo(id: string): string {
  const query = new URLSearchParams(place.value.query);
  query.set("tab", "dead-letters");
  query.set("letter", id);
  return `/queues?${query}`;
}

async function previewOf(letter: Letter): Promise<JSX.Element> {
  if (!letter.job_id) return <p>It is handed over to its receiver again. The letter is then settled as requeued.</p>;
  const job_id = letter.job_id;
  const job = await ok(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id } } }));
  const name = <strong>{letter.node_id ?? "what failed"}</strong>;
  return job.completed_at ? (
    <>
      <p>
        The job {shortId(job_id)} of {job.workflow_id} has ended as <Status status={job.status} />. A new job runs{" "}
        {name} and what follows it again, and reuses the results that are finished.
      </p>
      <p class="soft">The old job stays as it is. If other dead letters are of the same job, one new job serves all.</p>
    </>
  ) : (
    <p>
      The job {shortId(job_id)} of {job.workflow_id} still runs: {name} is tried again in it.
    </p>
  );
}

function requeue(letter: Letter, done: () => void): void {
  confirm({
    title: "Requeue this dead letter?",
    preview: () => previewOf(letter),
    action: "Requeue",
    run: async () => {
      const answer = await ok(
        api.POST("/api/v1/dead-letters/{dead_letter_id}/requeue", {
          params: { path: { dead_letter_id: letter.dead_letter_id } },
        }),
      );
      toast({
        kind: "done",
        text: answer.is_new_job ? "Requeued: a new job runs it again." : "Requeued.",
        ...(answer.job_id ? { to: to`/jobs/${answer.job_id}`, linkText: "Open the job" } : {}),
      });
      done();
    },
  });
}

function discard(letter: Letter, done: () => void): void {
  confirm({
    title: "Discard this dead letter?",
    preview: (
      <p>
        Nothing of it runs again{letter.job_id ? "; its job stays as it is" : ""}. The letter is kept, with your name,
        and shown with “Settled too”. It cannot be requeued after that.
      </p>
    ),
    action: "Discard",
    danger: true,
    run: async () => {
      await ok(
        api.POST("/api/v1/dead-letters/{dead_letter_id}/discard", {
          params: { path: { dead_letter_id: letter.dead_letter_id } },
        }),
      );
      toast({ kind: "done", text: "Discarded." });
      done();
    },
  });
}

function requeueAll(letters: readonly Letter[], filter: { queue?: string; reason?: string }, done: () => void): void {
  const jobs = new Set(letters.map((letter) => letter.job_id).filter(Boolean)).size;
  const many = letters.length >= MOST ? `${MOST} or more dead letters` : counted(letters.length, "dead letter");
  const where = [
    filter.queue ? `of queue ${filter.queue}` : "",
    filter.reason ? `with the reason ${filter.reason}` : "",
  ];
  confirm({
    title: `Requeue ${many}?`,
    preview: (
      <>
        <p>
          {many} {where.filter(Boolean).join(" ")} of {counted(jobs, "job")} get another chance. Jobs that have ended
          are run again as new jobs, one for each, with the results that are finished; in running jobs the tasks are
          tried again.
        </p>
        <p class="soft">What cannot be requeued stays open, and the reason is shown.</p>
      </>
    ),
    action: `Requeue ${letters.length >= MOST ? "all" : letters.length}`,
    run: async () => {
      let requeued = 0;
      let refused: Model<"NotRequeued">[] = [];
      // A call for many ends after some seconds; what it refused would come first again.
      for (let complete = false; !complete; ) {
        const answer = await ok(api.POST("/api/v1/dead-letters/requeue", { body: { ...filter, limit: 1000 } }));
        requeued += answer.requeued.length;
        refused = answer.refused;
        complete = answer.complete || answer.requeued.length === 0;
      }
      toast({
        kind: refused.length ? "failed" : "done",
        text:
          `${counted(requeued, "dead letter")} requeued.` +
          (refused[0]
            ? ` ${counted(refused.length, "stays", "stay")} open, the first because ${refused[0].reason}.`
            : ""),
      });
      done();
    },
  });
}

export function DeadLetters({
  queues,
  onChange,
}: {
  queues: readonly Model<"QueueStatus">[];
  onChange: () => void;
}): JSX.Element {
  const [queue] = useQuery("queue");
  const [reason] = useQuery("reason");
  const [settled] = useQuery("settled");
  const [chosenId] = useQuery("letter");
  const filter = { ...(queue ? { queue } : {}), ...(reason ? { reason } : {}) };
  const letters = useResource(
    async (signal) => {
      const query = { ...filter, settled_too: settled === "yes", limit: MOST };
      return (await ok(api.GET("/api/v1/dead-letters", { params: { query }, signal }))).dead_letters;
    },
    [queue, reason, settled],
    { live: ["jobs"], everySeconds: 5, clears: false },
  );
  const list = letters.data.value ?? [];
  const open = list.filter((letter) => !letter.settled_at);
  const chosen = list.find((letter) => letter.dead_letter_id === chosenId);
  const done = () => {
    void letters.reload();
    onChange();
  };
  const mayAct = may("operate");
  useKeys(() => {
    // The row that has the focus, else the one that is open.
    const here = () => {
      const key = document.activeElement?.closest<HTMLElement>("tr[data-key]")?.dataset.key ?? chosenId;
      return open.find((letter) => letter.dead_letter_id === key);
    };
    const on = (act: (letter: Letter, done: () => void) => void) => () => {
      const letter = here();
      if (letter) act(letter, done);
    };
    if (!mayAct) return [];
    return [
      { keys: "r", label: "Requeue the dead letter", group: "Dead letters", run: on(requeue) },
      { keys: "c", label: "Discard the dead letter", group: "Dead letters", run: on(discard) },
      {
        keys: "Shift+R",
        label: "Requeue all that are shown",
        group: "Dead letters",
        run: () => (open.length ? requeueAll(open, filter, done) : undefined),
      },
    ];
  }, [list, chosenId, queue, reason, mayAct]);
  const reasons = [...new Set([...list.map((letter) => letter.reason), ...(reason ? [reason] : [])])].sort();
  const names = [...new Set([...queues.filter((one) => one.dead_letters).map((one) => one.queue), queue])].filter(
    Boolean,
  );
  const isFiltered = Boolean(queue || reason);
  return (
    <div class="letters">
      <div class="chips letters-filters">
        {names.map((name) => (
          <Chip key={name} chosen={name === queue} onToggle={() => setQuery({ queue: name === queue ? null : name })}>
            queue {name}
          </Chip>
        ))}
        {reasons.map((one) => (
          <Chip key={one} chosen={one === reason} onToggle={() => setQuery({ reason: one === reason ? null : one })}>
            {reasonText(one)}
          </Chip>
        ))}
        <Chip chosen={settled === "yes"} onToggle={() => setQuery({ settled: settled === "yes" ? null : "yes" })}>
          Settled too
        </Chip>
        <span class="letters-all">
          {mayAct && open.length > 0 ? (
            <Button icon="retry" onClick={() => requeueAll(open, filter, done)}>
              Requeue all {open.length >= MOST ? "" : open.length}
            </Button>
          ) : null}
        </span>
      </div>
      <Resolved
        resource={letters}
        what="the dead letters"
        isEmpty={(data) => data.length === 0}
        empty={
          isFiltered ? (
            <Empty
              title="No dead letter matches"
              icon="search"
              action={<Link to="/queues?tab=dead-letters">Clear the filter</Link>}
            />
          ) : (
            <Empty title="No dead letters" icon="check">
              Nothing was given up. A task comes here when several workers died of it, a message when it could not be
              read.
            </Empty>
          )
        }
      >
        {(data) => (
          <div class={chosen ? "letters-columns" : ""}>
            <Section
              title="Dead letters"
              aside={<span>oldest first{data.length >= MOST ? `, the first ${MOST}` : ""}</span>}
              flush
            >
              <LetterTable letters={data} isShort={chosen !== undefined} />
            </Section>
            {chosen ? <LetterView key={chosen.dead_letter_id} letter={chosen} onDone={done} /> : null}
          </div>
        )}
      </Resolved>
    </div>
  );
}

function LetterTable({ letters, isShort }: { letters: readonly Letter[]; isShort: boolean }): JSX.Element {
  return (
    <Table<Letter>
      label="Dead letters"
      rows={letters}
      rowKey={(letter) => letter.dead_letter_id}
      rowTo={(letter) => letterTo(letter.dead_letter_id)}
      columns={[
        {
          id: "what",
          title: "What",
          width: isShort ? "" : "min(14rem, 26vw)",
          cell: (letter) => (
            <Link to={letterTo(letter.dead_letter_id)}>{letter.node_id ?? shortId(letter.dead_letter_id)}</Link>
          ),
        },
        ...(isShort
          ? []
          : [
              {
                id: "why",
                title: "Why",
                hide: "narrow" as const,
                cell: (letter: Letter) => (
                  <>
                    {reasonText(letter.reason)} <span class="faint">{letter.error_message}</span>
                  </>
                ),
              },
              {
                id: "queue",
                title: "Queue",
                width: "9rem",
                hide: "medium" as const,
                cell: (letter: Letter) => letter.queue ?? "–",
              },
            ]),
        {
          id: "state",
          title: "State",
          width: "7.5rem",
          cell: (letter) => (
            <Status
              status={letter.settled_as === "discarded" ? "cancelled" : letter.settled_as ? "completed" : "pending"}
              word={letter.settled_as ?? "open"}
              look="plain"
            />
          ),
        },
        { id: "age", title: "Since", width: "7rem", cell: (letter) => <Time at={letter.created_at} /> },
      ]}
    />
  );
}

function LetterView({ letter, onDone }: { letter: Letter; onDone: () => void }): JSX.Element {
  const detail = useResource(
    (signal) =>
      ok(
        api.GET("/api/v1/dead-letters/{dead_letter_id}", {
          params: { path: { dead_letter_id: letter.dead_letter_id } },
          signal,
        }),
      ),
    [letter.dead_letter_id, letter.settled_at],
    { clears: false },
  );
  const close = () => setQuery({ letter: null });
  return (
    <Section
      title={letter.node_id ?? `Dead letter ${shortId(letter.dead_letter_id)}`}
      aside={<Button look="quiet" icon="cross" label="Close" onClick={close} />}
    >
      <div class="stack">
        <p class="notice tone-warning letter-why">
          <span>
            <strong>Given up because {reasonText(letter.reason)}.</strong> {letter.error_message}
          </span>
        </p>
        {letter.settled_at ? (
          <p>
            <Status status="completed" word={letter.settled_as ?? "settled"} /> by {letter.settled_by},{" "}
            <Time at={letter.settled_at} />
          </p>
        ) : may("operate") ? (
          <div class="row">
            <Button look="primary" icon="retry" onClick={() => requeue(letter, onDone)}>
              Requeue
            </Button>
            <Button look="danger" icon="trash" onClick={() => discard(letter, onDone)}>
              Discard
            </Button>
          </div>
        ) : (
          <p class="faint">Requeueing and discarding need the scope “operate”, which your key does not have.</p>
        )}
        <Resolved resource={detail} what="the dead letter">
          {(data) => <LetterContent detail={data} />}
        </Resolved>
      </div>
    </Section>
  );
}

function LetterContent({ detail }: { detail: Detail }): JSX.Element {
  const { job_id, node_id } = detail;
  return (
    <>
      <Facts
        items={[
          [
            "Job",
            job_id ? (
              <Link to={`${to`/jobs/${job_id}`}${node_id ? `?node=${encodeURIComponent(node_id)}` : ""}`}>
                {shortId(job_id)}
              </Link>
            ) : null,
          ],
          ["Queue", detail.queue],
          ["Reason", <code key="r">{detail.reason}</code>],
          ["Workers lost", detail.lease_losses ? String(detail.lease_losses) : null],
          [
            "Held last by",
            detail.worker_id ? (
              <Link to={`/nodes?worker=${encodeURIComponent(detail.worker_id)}`}>{shortId(detail.worker_id)}</Link>
            ) : null,
          ],
          ["Given up", <Time key="t" at={detail.created_at} />],
        ]}
      />
      <h3>{detail.body ? "Payload" : "Beginning of the message, as it came"}</h3>
      <Code
        text={detail.body ? JSON.stringify(detail.body, null, 2) : (detail.raw ?? "")}
        language={detail.body ? "json" : "text"}
        label="Payload"
      />
      {Object.keys(detail.details).length ? (
        <>
          <h3>Details</h3>
          <Code text={JSON.stringify(detail.details, null, 2)} language="json" label="Details" />
        </>
      ) : null}
    </>
  );
}

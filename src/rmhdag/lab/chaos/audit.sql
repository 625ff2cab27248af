-- Witnesses beside the tables, which no guard of the platform knows. What they see stays seen if the write commits.
CREATE TABLE chaos_seen (invariant text NOT NULL, subject text NOT NULL, what text NOT NULL, at timestamptz DEFAULT now());
CREATE TABLE chaos_edges (workflow_id text NOT NULL, source text NOT NULL, target text NOT NULL, needed text NOT NULL);
CREATE TABLE chaos_nodes (workflow_id text NOT NULL, node_id text NOT NULL, node_type text NOT NULL);
CREATE TABLE chaos_lives (process_id text NOT NULL, role text NOT NULL, ended_at timestamptz NOT NULL, how text NOT NULL);
CREATE TABLE chaos_owners (job_id text NOT NULL, was text, became text, at timestamptz NOT NULL);
CREATE INDEX ON chaos_owners (was);
CREATE INDEX ON chaos_owners (job_id);
CREATE INDEX ON chaos_owners (became, at);

-- Open jobs with an owner that has a row, and since when they are its own.
CREATE VIEW chaos_owned AS
SELECT j.job_id, j.workflow_id, j.status, j.ending, j.owner_id, o.heartbeat_at, o.stats, COALESCE(
    (SELECT max(c.at) FROM chaos_owners AS c WHERE c.job_id = j.job_id), j.created_at) AS owned_since
FROM dag_jobs AS j
JOIN dag_orchestrators AS o ON o.owner_id = j.owner_id
WHERE j.completed_at IS NULL;

-- How long so many things may take an orchestrator, as long as its turns are: a turn takes 33 at least of each kind. One
-- that hangs has no turns, and so no excuse.
CREATE FUNCTION chaos_seconds_for(things bigint, stats jsonb) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT COALESCE((stats->>'cycle_ms_p99')::float8, 0) / 1000
        + 3 * COALESCE((stats->>'cycle_ms_avg')::float8, 0) / 1000 * things / 33
$$;

CREATE FUNCTION chaos_watch_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.completed_at IS NOT NULL AND (NEW.status, NEW.completed_at, NEW.result_data) IS DISTINCT FROM
        (OLD.status, OLD.completed_at, OLD.result_data) THEN
        INSERT INTO chaos_seen VALUES ('I2', OLD.job_id, format('ended as %s, became %s', OLD.status, NEW.status));
    END IF;
    IF NEW.owner_epoch < OLD.owner_epoch
        OR (NEW.owner_id IS DISTINCT FROM OLD.owner_id AND NEW.owner_id IS NOT NULL AND NEW.owner_epoch <= OLD.owner_epoch)
    THEN
        INSERT INTO chaos_seen VALUES ('I3', OLD.job_id,
            format('owner %s epoch %s became %s epoch %s', OLD.owner_id, OLD.owner_epoch, NEW.owner_id, NEW.owner_epoch));
    END IF;
    IF NEW.owner_id IS DISTINCT FROM OLD.owner_id THEN
        INSERT INTO chaos_owners VALUES (OLD.job_id, OLD.owner_id, NEW.owner_id, clock_timestamp());
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_watch AFTER UPDATE ON dag_jobs FOR EACH ROW EXECUTE FUNCTION chaos_watch_job();

-- Who writes is known from the connection's name, which ends like the owner's id; the epoch is not asked.
CREATE FUNCTION chaos_watch_writer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    writer text := current_setting('application_name');
    owner text;
BEGIN
    IF writer LIKE 'orchestrator:advance:%' THEN
        SELECT right(owner_id, 8) INTO owner FROM dag_jobs WHERE job_id = NEW.job_id;
        IF owner IS DISTINCT FROM right(writer, 8) THEN
            INSERT INTO chaos_seen VALUES ('I3', NEW.job_id,
                format('%s wrote to %s while %s was the owner', writer, TG_TABLE_NAME, owner));
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_watch_writer AFTER INSERT OR UPDATE ON dag_node_states
FOR EACH ROW EXECUTE FUNCTION chaos_watch_writer();
CREATE TRIGGER chaos_watch_writer AFTER INSERT ON dag_job_events
FOR EACH ROW EXECUTE FUNCTION chaos_watch_writer();

CREATE FUNCTION chaos_watch_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.completed_at IS NOT NULL AND NEW.status <> OLD.status AND NOT (OLD.status = 'failed' AND NEW.status = 'ready')
    THEN
        INSERT INTO chaos_seen VALUES ('I2', OLD.job_id,
            format('node %s was %s, became %s', OLD.node_id, OLD.status, NEW.status));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_watch AFTER UPDATE ON dag_node_states FOR EACH ROW EXECUTE FUNCTION chaos_watch_node();

-- A worker that was declared dead must not be heard: by then its row is gone.
CREATE FUNCTION chaos_watch_report() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status IN ('completed', 'failed', 'cancelled') AND (
        (TG_OP = 'UPDATE' AND to_jsonb(OLD)->>'status' = 'lost') OR EXISTS (
            SELECT FROM dag_task_results
            WHERE task_id = NEW.task_id AND lease_epoch >= NEW.lease_epoch AND status = 'lost'
        )
    ) THEN
        INSERT INTO chaos_seen VALUES ('I3', NEW.job_id,
            format('task %s lease %s was heard after it was lost', NEW.task_id, NEW.lease_epoch));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_watch AFTER INSERT OR UPDATE ON dag_task_results
FOR EACH ROW EXECUTE FUNCTION chaos_watch_report();

-- What is in the outbox keeps its id and its content, is tried more and more often, and ends once.
CREATE FUNCTION chaos_watch_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.status = 'pending' THEN
            INSERT INTO chaos_seen VALUES ('I10', OLD.message_id, 'went away while it was pending');
        END IF;
    ELSIF (NEW.message_id, NEW.destination, NEW.body) IS DISTINCT FROM (OLD.message_id, OLD.destination, OLD.body) THEN
        INSERT INTO chaos_seen VALUES ('I10', OLD.message_id, format('became another message: %s', NEW.message_id));
    ELSIF NEW.attempts < OLD.attempts OR (OLD.status <> 'pending' AND NEW.status <> OLD.status) THEN
        INSERT INTO chaos_seen VALUES ('I10', OLD.message_id,
            format('was %s after %s attempts, became %s after %s', OLD.status, OLD.attempts, NEW.status, NEW.attempts));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_watch AFTER UPDATE OR DELETE ON dag_outbox FOR EACH ROW EXECUTE FUNCTION chaos_watch_outbox();

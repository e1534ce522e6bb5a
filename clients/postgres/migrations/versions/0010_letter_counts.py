"""Letters: which were parked by when (for "all that I was shown"), and their counts, kept and not
counted anew every two seconds."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    _parked_in()
    _counts()


def _parked_in() -> None:
    # By transaction, not by time or number: only that tells exactly what a page's snapshot showed.
    # 3 is before all transactions. Redrives that are under way go on by the time that they had.
    op.execute("""
        ALTER TABLE headrace.letter ADD COLUMN parked_in xid8 NOT NULL DEFAULT '3';
        ALTER TABLE headrace.letter ALTER COLUMN parked_in SET DEFAULT pg_current_xact_id();
        COMMENT ON COLUMN headrace.letter.parked_in IS 'the transaction that parked it last';
        UPDATE headrace.redrive
            SET selection = jsonb_build_object('until', begun_at::text) || selection
            WHERE status <> 'done';
    """)


def _counts() -> None:
    # Each statement adds its differences as rows of its own, so that no two wait for each other;
    # the indexer sums them up now and then.
    op.execute("""
        CREATE TABLE headrace.letter_count (
            status    text NOT NULL,
            stage     text NOT NULL,
            cause     text NOT NULL,
            letters   bigint NOT NULL,
            came_back bigint NOT NULL,
            again     bigint NOT NULL
        ) WITH (
            autovacuum_vacuum_scale_factor = 0,
            autovacuum_vacuum_threshold = 10000,
            autovacuum_vacuum_cost_delay = 0
        );
        COMMENT ON TABLE headrace.letter_count IS
            'differences: the sum over the rows of a kind is how many letters of it there are';
        COMMENT ON COLUMN headrace.letter_count.came_back IS 'of these, were parked before';
        COMMENT ON COLUMN headrace.letter_count.again IS 'how often they were parked again';

        CREATE FUNCTION headrace.count_letters() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                DELETE FROM headrace.letter_count;
            END IF;
            IF TG_OP IN ('INSERT', 'UPDATE') THEN
                INSERT INTO headrace.letter_count
                    SELECT status, stage, cause, count(*), count(*) FILTER (WHERE times > 1),
                           sum(times - 1) FROM after GROUP BY status, stage, cause;
            END IF;
            IF TG_OP IN ('UPDATE', 'DELETE') THEN
                INSERT INTO headrace.letter_count
                    SELECT status, stage, cause, -count(*), -count(*) FILTER (WHERE times > 1),
                           -sum(times - 1) FROM before GROUP BY status, stage, cause;
            END IF;
            RETURN NULL;
        END $$;

        CREATE TRIGGER count_inserted AFTER INSERT ON headrace.letter
            REFERENCING NEW TABLE AS after
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.count_letters();
        CREATE TRIGGER count_updated AFTER UPDATE ON headrace.letter
            REFERENCING OLD TABLE AS before NEW TABLE AS after
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.count_letters();
        CREATE TRIGGER count_deleted AFTER DELETE ON headrace.letter
            REFERENCING OLD TABLE AS before
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.count_letters();
        CREATE TRIGGER count_truncated AFTER TRUNCATE ON headrace.letter
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.count_letters();

        INSERT INTO headrace.letter_count
            SELECT status, stage, cause, count(*), count(*) FILTER (WHERE times > 1),
                   sum(times - 1) FROM headrace.letter GROUP BY status, stage, cause;
        CREATE INDEX letter_parked_first ON headrace.letter (first_parked)
            WHERE status = 'parked';
        CREATE INDEX letter_by_kind ON headrace.letter (status, stage, cause, parked_at);
    """)

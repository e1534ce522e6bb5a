"""The ledger: what became of each payload. persist writes into its journal, the keeper posts that
to pages (a byte for each place in the ingest log) and counts by minute."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE headrace.ledger_journal (
            seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            topic     text NOT NULL,
            partition integer NOT NULL,
            first     bigint NOT NULL,
            verdicts  bytea NOT NULL
        ) WITH (
            autovacuum_vacuum_scale_factor = 0,
            autovacuum_vacuum_threshold = 10000,
            autovacuum_vacuum_cost_delay = 0
        );
        COMMENT ON TABLE headrace.ledger_journal IS
            'what was judged, in the transaction that judged it; a row leaves when it is posted';

        CREATE TABLE headrace.ledger_page (
            topic     text COLLATE "C" NOT NULL,
            partition integer NOT NULL,
            page      bigint NOT NULL,
            verdicts  bytea NOT NULL,
            PRIMARY KEY (topic, partition, page)
        ) WITH (fillfactor = 50);
        COMMENT ON COLUMN headrace.ledger_page.verdicts IS 'see Verdict in shared/ledger.py';

        CREATE TABLE headrace.ledger_partition (
            topic          text COLLATE "C" NOT NULL,
            partition      integer NOT NULL,
            of_payloads    boolean NOT NULL DEFAULT false,
            begins         bigint NOT NULL DEFAULT 0,
            ends           bigint NOT NULL DEFAULT 0,
            by_all         bigint NOT NULL DEFAULT 0,
            by_fold        bigint NOT NULL DEFAULT 0,
            stored         bigint NOT NULL DEFAULT 0,
            duplicate      bigint NOT NULL DEFAULT 0,
            late_duplicate bigint NOT NULL DEFAULT 0,
            waiting        bigint NOT NULL DEFAULT 0,
            parked         bigint NOT NULL DEFAULT 0,
            discarded      bigint NOT NULL DEFAULT 0,
            difference     bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (topic, partition)
        ) WITH (fillfactor = 50);
        COMMENT ON COLUMN headrace.ledger_partition.by_all IS
            'of earlier places all that could tell has been heard';

        CREATE TABLE headrace.ledger_minute (
            topic          text COLLATE "C" NOT NULL,
            partition      integer NOT NULL,
            minute         bigint NOT NULL,
            first          bigint NOT NULL,
            received       bigint NOT NULL DEFAULT 0,
            stored         bigint NOT NULL DEFAULT 0,
            duplicate      bigint NOT NULL DEFAULT 0,
            late_duplicate bigint NOT NULL DEFAULT 0,
            waiting        bigint NOT NULL DEFAULT 0,
            parked         bigint NOT NULL DEFAULT 0,
            discarded      bigint NOT NULL DEFAULT 0,
            difference     bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (topic, partition, first)
        ) WITH (fillfactor = 80);
        CREATE INDEX ledger_minute_of_time ON headrace.ledger_minute (minute);
        CREATE INDEX ledger_minute_that_differs ON headrace.ledger_minute (minute)
            WHERE difference > 0;
        COMMENT ON COLUMN headrace.ledger_minute.minute IS 'since 1970, by the broker''s clock';

        CREATE TABLE headrace.ledger_lane (
            topic      text NOT NULL,
            partition  integer NOT NULL,
            next       bigint NOT NULL,
            PRIMARY KEY (topic, partition)
        );

        CREATE TABLE headrace.ledger_state (
            only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            whole_log    boolean NOT NULL,
            as_of        timestamptz
        );
        COMMENT ON COLUMN headrace.ledger_state.whole_log IS
            'false: rows were there before the ledger, so it begins with what comes from then on';
        INSERT INTO headrace.ledger_state (whole_log)
            SELECT NOT EXISTS (SELECT FROM headrace.event);

        CREATE FUNCTION headrace.journal_removed_events() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                PERFORM headrace.journal_removed(origin) FROM headrace.event;
                PERFORM headrace.journal_removed(position) FROM headrace.event;
            ELSE
                PERFORM headrace.journal_removed(origin) FROM removed;
                PERFORM headrace.journal_removed(position) FROM removed;
            END IF;
            RETURN NULL;
        END $$;

        CREATE FUNCTION headrace.journal_removed(place text) RETURNS void LANGUAGE sql AS $$
            INSERT INTO headrace.ledger_journal (topic, partition, first, verdicts)
            SELECT split_part(place, '/', 1), split_part(place, '/', 2)::integer,
                   split_part(place, '/', 3)::bigint, '\\xff'
            WHERE place ~ '^[^/]+/[0-9]+/[0-9]+$'
        $$;

        CREATE TRIGGER journal_removed AFTER DELETE ON headrace.event
            REFERENCING OLD TABLE AS removed
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.journal_removed_events();
        CREATE TRIGGER journal_truncated BEFORE TRUNCATE ON headrace.event
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.journal_removed_events();
    """)

"""The outbox: everything that PostgreSQL sends to Kafka, in one table."""

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    # A queue, not a log: a row leaves when the broker has it. What was sent stands in its topic,
    # so a mark would only keep dead weight between the relay and its next row.
    op.execute("""
        CREATE TABLE headrace.outbox (
            seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            topic      text NOT NULL,
            key        bytea,
            value      bytea,
            headers    jsonb NOT NULL DEFAULT '[]',
            created_at timestamptz NOT NULL DEFAULT now()
        ) WITH (
            autovacuum_vacuum_scale_factor = 0,
            autovacuum_vacuum_threshold = 10000,
            autovacuum_vacuum_cost_delay = 0
        );

        COMMENT ON COLUMN headrace.outbox.headers IS
            '[[name, text], ...]; a value that is no text: [name, base64, "base64"]';

        CREATE FUNCTION headrace.rfc3339(moment timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
            SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        $$;

        CREATE FUNCTION headrace.wake_relay() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('headrace_outbox', '');
            RETURN NULL;
        END $$;

        CREATE TRIGGER wake_relay AFTER INSERT ON headrace.outbox
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.wake_relay();
    """)

"""Rows that PostgreSQL does not take now and may take later, with those that wait behind them."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE headrace.waiting_row (
            topic     text COLLATE "C" NOT NULL,
            partition integer NOT NULL,
            "offset"  bigint NOT NULL,
            line      text COLLATE "C" NOT NULL,
            key       bytea,
            value     bytea,
            headers   jsonb NOT NULL,
            since     timestamptz NOT NULL DEFAULT now(),
            due_at    timestamptz NOT NULL,
            tried_at  timestamptz,
            tries     integer NOT NULL DEFAULT 0,
            waited_s  float8 NOT NULL DEFAULT 0,
            reason    text NOT NULL,
            detail    text NOT NULL,
            given_up  boolean NOT NULL DEFAULT false,
            PRIMARY KEY (topic, partition, "offset")
        );
        CREATE INDEX waiting_row_of_line ON headrace.waiting_row (line, topic);
        CREATE INDEX waiting_row_due ON headrace.waiting_row (due_at);
        COMMENT ON TABLE headrace.waiting_row IS
            'records that are no rows yet, because PostgreSQL refused them with an error that may '
            'pass, or an earlier one of their entity waits';
        COMMENT ON COLUMN headrace.waiting_row.line IS
            'the entity; of a row that waits without order, that and its place';
        COMMENT ON COLUMN headrace.waiting_row.waited_s IS
            'what counts of its age: not the time in which nobody could try';
    """)

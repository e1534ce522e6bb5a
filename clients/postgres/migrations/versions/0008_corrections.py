"""Corrections: an event's row says how often it was corrected, a run how far it has come."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.execute("""
        ALTER TABLE headrace.event
            ADD COLUMN revision bigint NOT NULL DEFAULT 0,
            ADD COLUMN asked_revision bigint NOT NULL DEFAULT 0;
        COMMENT ON COLUMN headrace.event.revision IS
            'how often it was corrected: `data` is what the last correction made of the payload';
        COMMENT ON COLUMN headrace.event.asked_revision IS
            'of the last correction that was sent on its way';

        CREATE TABLE headrace.reenrich_run (
            name         text PRIMARY KEY,
            entity_id    text NOT NULL,
            from_time    timestamptz NOT NULL,
            to_time      timestamptz NOT NULL,
            last_row_key bigint NOT NULL,
            chosen       bigint NOT NULL,
            done_row_key bigint NOT NULL DEFAULT -1,
            sent         bigint NOT NULL DEFAULT 0,
            gone         bigint NOT NULL DEFAULT 0,
            started_at   timestamptz NOT NULL DEFAULT now(),
            ended_at     timestamptz
        );
        COMMENT ON COLUMN headrace.reenrich_run.done_row_key IS
            'of event rows up to here all is in the outbox, in the same transaction';
        COMMENT ON COLUMN headrace.reenrich_run.gone IS
            'whose payloads are no longer in their ingest topic, or were mended by an operator';
    """)

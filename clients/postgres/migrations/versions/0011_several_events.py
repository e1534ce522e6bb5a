"""Payloads that become several events, or none on purpose."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("""
        ALTER TABLE headrace.ledger_partition ADD COLUMN dropped bigint NOT NULL DEFAULT 0;
        ALTER TABLE headrace.ledger_minute ADD COLUMN dropped bigint NOT NULL DEFAULT 0;

        ALTER TABLE headrace.repeat ADD COLUMN is_known boolean;
        ALTER TABLE headrace.repeat DROP CONSTRAINT repeat_pkey;
        ALTER TABLE headrace.repeat ADD PRIMARY KEY (topic, partition, place, event_id);
        COMMENT ON COLUMN headrace.repeat.is_known IS
            'of an event that is one of several of its payload, whether fold knew it; null of one '
            'alone, for which the ledger has a verdict';
    """)

"""Repeats that persist has met, until the ledger knows whether fold knew them, too."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE headrace.repeat (
            topic     text NOT NULL,
            partition int NOT NULL,
            place     bigint NOT NULL,
            event_id  text COLLATE "C" NOT NULL,
            PRIMARY KEY (topic, partition, place)
        );
        COMMENT ON TABLE headrace.repeat IS
            'payloads whose event has its row from elsewhere, until it is known that fold took '
            'them for repeats, too, or a correction is on its way';
        CREATE TABLE headrace.recount (
            event_id  text COLLATE "C" PRIMARY KEY,
            revision  int NOT NULL
        );
        COMMENT ON TABLE headrace.recount IS
            'corrections that were sent for repeats that fold counted, until persist has them';
    """)

"""Letters know which webhook could not be given what they hold."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute("""
        ALTER TABLE headrace.letter ADD COLUMN hook text;
        CREATE INDEX letter_by_hook ON headrace.letter (hook, parked_at DESC, id DESC)
            WHERE hook IS NOT NULL;
        COMMENT ON COLUMN headrace.letter.hook IS 'the webhook that could not be given it';
    """)
    # the indexer reads them again: those that were parked before learn theirs
    op.execute("DELETE FROM headrace.letter_place WHERE topic = 'dlq.forward.v1'")

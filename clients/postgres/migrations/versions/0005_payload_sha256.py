"""Events remember their payload's sha256: by that, a key used for two payloads is seen."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("""
        ALTER TABLE headrace.event ADD COLUMN payload_sha256 text COLLATE "C";
        COMMENT ON COLUMN headrace.event.payload_sha256 IS
            'of the bytes that were posted, in hex; null: their sender told none';
    """)

"""Which events a version of a state has: told by how far it has looked at their logs."""

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute("""
        ALTER TABLE headrace.state_version ADD COLUMN positions json;
        COMMENT ON COLUMN headrace.state_version.positions IS
            'event topic/partition -> offset up to which its events are in this version; null: not '
            'known, as of an aggregate and of what an earlier version of Headrace kept';
    """)

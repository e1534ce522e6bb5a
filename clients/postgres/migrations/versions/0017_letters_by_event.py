"""Dead letters are found by the id of their event."""

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.execute("CREATE INDEX letter_by_event ON headrace.letter (event_id)")

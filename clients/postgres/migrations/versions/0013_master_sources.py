"""Master data that is read from stores of the user's: how far, and rows that were refused."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE headrace.master_source (
            table_name  text PRIMARY KEY,
            source      text NOT NULL,
            position    jsonb NOT NULL,
            read_at     timestamptz NOT NULL,
            compared_at timestamptz NOT NULL
        );
        COMMENT ON COLUMN headrace.master_source.source IS
            'a digest of what is read, and of the contract: where it differs, all is read anew';
        COMMENT ON COLUMN headrace.master_source.read_at IS 'as of when the rows are known';

        CREATE TABLE headrace.master_refusal (
            table_name text NOT NULL,
            key        text COLLATE "C" NOT NULL,
            reason     text NOT NULL,
            refused_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (table_name, key)
        );
    """)

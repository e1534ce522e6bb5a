"""What persist writes: the event log as rows, entity state, and what could not become a row."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    # ids are compared byte by byte: a language's collation would only make the index slower
    op.execute("""
        CREATE TABLE headrace.event (
            event_id   text COLLATE "C" PRIMARY KEY,
            type       text NOT NULL,
            entity_id  text COLLATE "C" NOT NULL,
            event_time timestamptz NOT NULL,
            arrived_at timestamptz NOT NULL,
            origin     text NOT NULL,
            position   text NOT NULL,
            data       jsonb NOT NULL,
            stored_at  timestamptz NOT NULL DEFAULT now(),
            row_key    bigint GENERATED ALWAYS AS IDENTITY UNIQUE
        );
        CREATE INDEX event_of_entity ON headrace.event (entity_id, arrived_at);
        COMMENT ON COLUMN headrace.event.origin IS 'ingest topic/partition/offset';
        COMMENT ON COLUMN headrace.event.position IS 'event topic/partition/offset';

        CREATE TABLE headrace.entity_state (
            entity     text NOT NULL,
            id         text COLLATE "C" NOT NULL,
            version    bigint NOT NULL,
            event_time timestamptz,
            state      jsonb NOT NULL,
            deleted    boolean NOT NULL DEFAULT false,
            position   text NOT NULL,
            updated_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (entity, id)
        ) WITH (fillfactor = 70);

        CREATE TABLE headrace.parked (
            id        text PRIMARY KEY,
            stage     text NOT NULL,
            position  text NOT NULL,
            reason    text NOT NULL,
            detail    text NOT NULL,
            parked_at timestamptz NOT NULL DEFAULT now()
        );
        COMMENT ON TABLE headrace.parked IS
            'remembers dead letters, so that a batch that runs again sends none twice';
    """)

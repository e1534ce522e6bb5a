"""What states were: each version that was published, and what an event's row needs to be folded."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    # json, not jsonb: a version is kept as it was published, and nobody looks for what is in it
    op.execute("""
        CREATE TABLE headrace.state_version (
            entity           text NOT NULL,
            id               text COLLATE "C" NOT NULL,
            life             integer NOT NULL,
            version          bigint NOT NULL,
            at               timestamptz NOT NULL,
            event_time       timestamptz,
            late             bigint NOT NULL,
            clock_off        bigint NOT NULL,
            deleted          boolean NOT NULL,
            state            json NOT NULL,
            "offset"         bigint NOT NULL,
            began_after      bigint NOT NULL,
            forgotten_at     timestamptz,
            forgotten_offset bigint,
            PRIMARY KEY (entity, id, life, version)
        );
        CREATE INDEX state_version_at ON headrace.state_version (entity, id, at);
        COMMENT ON COLUMN headrace.state_version.at IS 'when it came to the state topic';
        COMMENT ON COLUMN headrace.state_version.life IS
            'versions begin again once a deleted entity was forgotten: how often that was';
        COMMENT ON COLUMN headrace.state_version.began_after IS
            'offset of the null that ended the life before; -1: it is the first one';
        COMMENT ON COLUMN headrace.state_version.forgotten_at IS
            'of the last version of a life: when a null on the state topic ended it';

        ALTER TABLE headrace.event ADD COLUMN shape integer, ADD COLUMN saw jsonb;
        COMMENT ON COLUMN headrace.event.shape IS
            'of `data`: which of its type''s; null where an earlier version of Headrace stored it';
        COMMENT ON COLUMN headrace.event.saw IS 'what its enrichment looked up, if it says so';

        ALTER TABLE headrace.waiting_row ADD COLUMN time_ms bigint NOT NULL DEFAULT 0;
        COMMENT ON COLUMN headrace.waiting_row.time_ms IS 'of the record; 0: not known';
    """)

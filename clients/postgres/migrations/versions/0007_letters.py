"""Dead letters, to be looked for: the desk indexes their topics here, and notes what was done."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    # The bytes stay in their topic, which is kept for ever, and are read at their offset: a copy
    # here would be a second truth, and a megabyte a letter.
    op.execute("""
        CREATE TABLE headrace.letter (
            id             text COLLATE "C" PRIMARY KEY,
            status         text NOT NULL CHECK (status IN
                               ('parked', 'redriven', 'done', 'discarded')),
            stage          text NOT NULL,
            cause          text NOT NULL,
            detail         text NOT NULL,
            endpoint       text,
            entity_id      text COLLATE "C",
            tenant         text NOT NULL,
            event_id       text COLLATE "C",
            origin         text NOT NULL,
            payload        text,
            payload_sha256 text NOT NULL,
            bytes          integer NOT NULL,
            software       text NOT NULL,
            attempt        integer NOT NULL,
            times          integer NOT NULL,
            arrived_at     timestamptz NOT NULL,
            first_parked   timestamptz NOT NULL,
            parked_at      timestamptz NOT NULL,
            topic          text NOT NULL,
            partition      integer NOT NULL,
            "offset"       bigint NOT NULL
        ) WITH (fillfactor = 70);
        CREATE INDEX letter_by_time ON headrace.letter (parked_at DESC, id DESC);
        CREATE INDEX letter_by_cause ON headrace.letter (status, cause, parked_at DESC, id DESC);
        CREATE INDEX letter_by_entity ON headrace.letter (entity_id, parked_at DESC, id DESC);
        CREATE INDEX letter_by_place ON headrace.letter (topic, partition, "offset")
            WHERE status = 'parked';
        CREATE INDEX letter_under_way ON headrace.letter (event_id) WHERE status = 'redriven';
        COMMENT ON TABLE headrace.letter IS
            'what was parked, by stage and origin; its bytes are at topic, partition and offset';
        COMMENT ON COLUMN headrace.letter.origin IS
            'topic/partition/offset of what could not be done';
        COMMENT ON COLUMN headrace.letter.payload IS
            'ingest topic/partition/offset of the payload that it came from';

        CREATE TABLE headrace.letter_attempt (
            letter    text COLLATE "C" NOT NULL REFERENCES headrace.letter (id) ON DELETE CASCADE,
            number    integer NOT NULL,
            at        timestamptz NOT NULL,
            stage     text NOT NULL,
            cause     text NOT NULL,
            detail    text NOT NULL,
            software  text NOT NULL,
            PRIMARY KEY (letter, number)
        );

        CREATE TABLE headrace.letter_place (
            topic     text NOT NULL,
            partition integer NOT NULL,
            next      bigint NOT NULL,
            PRIMARY KEY (topic, partition)
        );
        COMMENT ON TABLE headrace.letter_place IS 'how far the dead-letter topics are indexed';

        CREATE TABLE headrace.redrive (
            id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            status     text NOT NULL CHECK (status IN ('running', 'stopped', 'done')),
            selection  jsonb NOT NULL,
            per_second double precision NOT NULL CHECK (per_second > 0),
            by         text NOT NULL,
            begun_at   timestamptz NOT NULL DEFAULT now(),
            letters    bigint NOT NULL,
            sent       bigint NOT NULL DEFAULT 0,
            refused    bigint NOT NULL DEFAULT 0,
            refusal    text,
            after      text NOT NULL DEFAULT '/0/0'
        ) WITH (fillfactor = 50);
        COMMENT ON COLUMN headrace.redrive.after IS
            'topic/partition/offset of the last letter that it has looked at';

        CREATE TABLE headrace.letter_audit (
            seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            at        timestamptz NOT NULL DEFAULT now(),
            by        text NOT NULL,
            what      text NOT NULL,
            letters   bigint NOT NULL,
            selection jsonb NOT NULL,
            reason    text
        );
    """)

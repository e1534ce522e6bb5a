"""The SQL of persist: each statement takes many rows at once, as columns."""

from shared.events.envelope import TIME

_GIVEN = """
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(
            %b::text[], %b::text[], %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::text[],
            %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bigint[],
            %b::int[], %b::text[]
        ) AS given (event_id, type, entity_id, time_ms, arrived_ms, origin, position,
                    payload_sha256, data, topic, told, headers, revision, shape, saw)
    )"""
_COMPLETE = f"""
    stored AS MATERIALIZED (SELECT headrace.rfc3339(now()) AS at)
    INSERT INTO headrace.outbox (topic, key, value, headers)
    SELECT topic, convert_to(given.entity_id, 'UTF8'),
           convert_to('{{"row_key" : ' || row_key || told || at || '"}}', 'UTF8'),
           (left(headers, -1) || ', ["{TIME}", "' || at || '"]]')::jsonb
    FROM written JOIN given USING (event_id) CROSS JOIN stored ORDER BY row_key
"""
INSERT_EVENTS = f"""{_GIVEN}, written AS (
        INSERT INTO headrace.event
            (event_id, type, entity_id, event_time, arrived_at, origin, position,
             payload_sha256, data, revision, shape, saw)
        SELECT event_id, type, entity_id,
               'epoch'::timestamptz + time_ms * interval '1 millisecond',
               'epoch'::timestamptz + arrived_ms * interval '1 millisecond',
               origin, position, payload_sha256, data::jsonb, revision, shape, saw::jsonb
        FROM given
        ON CONFLICT (event_id) DO NOTHING
        RETURNING event_id, row_key
    ), {_COMPLETE}
"""
# A correction has another content, and the id, the place and the arrival of what it corrects.
CORRECT_EVENTS = f"""{_GIVEN}, written AS (
        UPDATE headrace.event AS known SET
            type = given.type, entity_id = given.entity_id, position = given.position,
            event_time = 'epoch'::timestamptz + given.time_ms * interval '1 millisecond',
            data = given.data::jsonb, revision = given.revision, shape = given.shape,
            saw = given.saw::jsonb
        FROM given WHERE known.event_id = given.event_id AND known.revision < given.revision
        RETURNING known.event_id, known.row_key
    ), {_COMPLETE}
"""
# A statement of its own, after the insert: only so it sees a row that another task's insert,
# which this one had to wait for, has put there.
FROM_ELSEWHERE = """
    SELECT number, coalesce(stored.payload_sha256 <> given.payload_sha256, false),
           stored.origin, stored.payload_sha256
    FROM unnest(%b::text[], %b::text[], %b::text[]) WITH ORDINALITY
        AS given (event_id, place, payload_sha256, number)
    JOIN headrace.event AS stored USING (event_id)
    WHERE given.place NOT IN (stored.origin, stored.position)
    ORDER BY number
"""
JOURNAL = """
    INSERT INTO headrace.ledger_journal (topic, partition, first, verdicts)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::bytea[])
"""
# until the ledger knows whether fold took them for repeats, too (corrections.py)
REMEMBER_REPEATS = """
    INSERT INTO headrace.repeat (topic, partition, place, event_id, is_known)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::text[], %b::boolean[])
    ON CONFLICT DO NOTHING
"""
_UPSERT = """
    INSERT INTO headrace.entity_state AS stored
        (entity, id, version, event_time, state, deleted, position)
    SELECT entity, id, version, 'epoch'::timestamptz + time_ms * interval '1 millisecond',
           state::jsonb, deleted, position
    FROM {given}
    ORDER BY entity, id
    ON CONFLICT (entity, id) DO UPDATE SET
        version = excluded.version, event_time = excluded.event_time, state = excluded.state,
        deleted = excluded.deleted, position = excluded.position, updated_at = now()
    WHERE excluded.version > stored.version
"""
UPSERT_STATES = _UPSERT.format(
    given="""unnest(
        %b::text[], %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::boolean[], %b::text[]
    ) AS given (entity, id, version, time_ms, state, deleted, position)"""
)
# where a row of the flow asks for it, with a completion for each that became a row
UPSERT_AND_COMPLETE_STATES = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(
            %b::text[], %b::text[], %b::bigint[], %b::bigint[], %b::text[], %b::boolean[],
            %b::text[], %b::text[], %b::text[], %b::text[]
        ) AS given (entity, id, version, time_ms, state, deleted, position, topic, told, headers)
    ), written AS (
        {_UPSERT.format(given="given")} RETURNING stored.entity, stored.id
    ), moment AS MATERIALIZED (SELECT headrace.rfc3339(now()) AS at)
    INSERT INTO headrace.outbox (topic, key, value, headers)
    SELECT topic, convert_to(given.id, 'UTF8'), convert_to(told || at || '"}}', 'UTF8'),
           (left(headers, -1) || ', ["{TIME}", "' || at || '"]]')::jsonb
    FROM written JOIN given USING (entity, id) CROSS JOIN moment ORDER BY entity, id
"""
# Each once: what was published again, or is older than what is kept, is passed over. A life ends
# with a null; after it the next one begins.
KEEP_VERSIONS = """
    INSERT INTO headrace.state_version
        (entity, id, life, version, at, event_time, late, clock_off, deleted, state, "offset",
         began_after, positions)
    SELECT entity, id, coalesce(last.life + (last.forgotten_offset IS NOT NULL)::int, 0),
           given.version, coalesce('epoch'::timestamptz + at_ms * interval '1 ms', now()),
           'epoch'::timestamptz + time_ms * interval '1 ms', late, clock_off, deleted, state::json,
           given."offset", coalesce(last.forgotten_offset, last.began_after, -1),
           positions::json
    FROM unnest(
        %b::text[], %b::text[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],
        %b::bigint[], %b::boolean[], %b::text[], %b::bigint[], %b::text[]
    ) AS given (entity, id, version, at_ms, time_ms, late, clock_off, deleted, state, "offset",
                positions)
    LEFT JOIN LATERAL (
        SELECT life, version, forgotten_offset, began_after FROM headrace.state_version AS kept
        WHERE (kept.entity, kept.id) = (given.entity, given.id)
        ORDER BY life DESC, version DESC LIMIT 1
    ) AS last ON true
    WHERE last.version IS NULL
       OR (given."offset" > coalesce(last.forgotten_offset, last.began_after)
           AND (last.forgotten_offset IS NOT NULL OR given.version > last.version))
    ON CONFLICT DO NOTHING
"""
END_LIVES = """
    UPDATE headrace.state_version AS kept
    SET forgotten_at = coalesce('epoch'::timestamptz + at_ms * interval '1 ms', now()),
        forgotten_offset = given."offset"
    FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::bigint[])
        AS given (entity, id, at_ms, "offset")
    CROSS JOIN LATERAL (
        SELECT life, version FROM headrace.state_version AS one
        WHERE (one.entity, one.id) = (given.entity, given.id)
        ORDER BY life DESC, version DESC LIMIT 1
    ) AS last
    WHERE (kept.entity, kept.id, kept.life, kept.version)
        = (given.entity, given.id, last.life, last.version)
      AND kept.forgotten_offset IS NULL AND kept."offset" < given."offset"
"""
# What stood before a null is over, whatever its version: by its place in their common partition.
FORGET_STATES = """
    DELETE FROM headrace.entity_state AS stored
    USING unnest(%b::text[], %b::text[], %b::text[], %b::bigint[])
        AS given (entity, id, partition, "offset")
    WHERE (stored.entity, stored.id) = (given.entity, given.id)
      AND starts_with(stored.position, given.partition)
      AND substring(stored.position from '[0-9]+$')::bigint < given."offset"
"""
PARK = """
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(
            %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::text[]
        ) AS given (id, position, reason, detail, key, value, headers)
    ), first_time AS (
        INSERT INTO headrace.parked (id, stage, position, reason, detail)
        SELECT id, 'persist', position, reason, detail FROM given
        ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO headrace.outbox (topic, key, value, headers)
    SELECT %b::text, key, value, headers::jsonb FROM first_time JOIN given USING (id)
"""

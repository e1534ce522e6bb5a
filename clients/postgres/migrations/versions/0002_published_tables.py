"""Tables whose every change reaches a compacted topic: attach any table by one call.

    SELECT headrace.publish_table('my.gate', 'master.gate.v1', 'id', 'updated_at');

Arguments: table, topic, key column, then the timestamp columns, which travel as <name>_ms.
"""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _publish_row()
    _count_revision()
    _publish_table()


def _publish_row() -> None:
    # same transaction as the change: whoever sees the row can rely on the message, and reversely
    op.execute("""
        CREATE FUNCTION headrace.publish_row() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            topic_name text := TG_ARGV[0];
            key_column text := TG_ARGV[1];
            old_key text := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) ->> key_column END;
            new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
            time_column text;
        BEGIN
            IF old_key IS DISTINCT FROM new_row ->> key_column AND old_key IS NOT NULL THEN
                PERFORM headrace.send_row(topic_name, old_key, NULL);
            END IF;
            IF new_row IS NOT NULL THEN
                FOREACH time_column IN ARRAY TG_ARGV[2:] LOOP
                    new_row := new_row - time_column || jsonb_build_object(
                        time_column || '_ms',
                        floor(extract(epoch FROM (new_row ->> time_column)::timestamptz) * 1000)
                    );
                END LOOP;
                PERFORM headrace.send_row(topic_name, new_row ->> key_column, new_row);
            END IF;
            RETURN NULL;
        END $$;

        CREATE FUNCTION headrace.send_row(topic_name text, row_key text, content jsonb)
        RETURNS void LANGUAGE sql AS $$
            INSERT INTO headrace.outbox (topic, key, value, headers) VALUES (
                topic_name,
                convert_to(row_key, 'UTF8'),
                convert_to(content::text, 'UTF8'),
                jsonb_build_array(
                    jsonb_build_array('ce_specversion', '1.0'),
                    jsonb_build_array('ce_id', gen_random_uuid()),
                    jsonb_build_array('ce_type', regexp_replace(topic_name, '\\.v[0-9]+$', '')),
                    jsonb_build_array('ce_source', '/postgres'),
                    jsonb_build_array('ce_subject', row_key),
                    jsonb_build_array('ce_time', headrace.rfc3339(clock_timestamp())),
                    jsonb_build_array('content-type', 'application/json')
                )
            );
        $$;

        CREATE FUNCTION headrace.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% is published row by row: use DELETE, not TRUNCATE', TG_TABLE_NAME;
        END $$;
    """)


def _count_revision() -> None:
    op.execute("""
        CREATE FUNCTION headrace.count_revision() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.revision := CASE WHEN TG_OP = 'UPDATE' THEN OLD.revision + 1 ELSE 1 END;
            NEW.updated_at := clock_timestamp();
            RETURN NEW;
        END $$;
    """)


def _publish_table() -> None:
    op.execute("""
        CREATE FUNCTION headrace.publish_table(
            published regclass, topic_name text, key_column text,
            VARIADIC time_columns text[] DEFAULT '{}'
        ) RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            arguments text := (
                SELECT string_agg(quote_literal(argument), ', ' ORDER BY place)
                FROM unnest(ARRAY[topic_name, key_column] || time_columns)
                    WITH ORDINALITY AS given (argument, place)
            );
        BEGIN
            EXECUTE format(
                'CREATE TRIGGER publish_row AFTER INSERT OR DELETE ON %s FOR EACH ROW
                 EXECUTE FUNCTION headrace.publish_row(%s)', published, arguments);
            EXECUTE format(
                'CREATE TRIGGER publish_changed_row AFTER UPDATE ON %s FOR EACH ROW
                 WHEN (OLD.* IS DISTINCT FROM NEW.*)
                 EXECUTE FUNCTION headrace.publish_row(%s)', published, arguments);
            EXECUTE format(
                'CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %s
                 EXECUTE FUNCTION headrace.refuse_truncate()', published);
        END $$;
    """)

"""Master data of domains: the rows of all tables that flows declare, in one table."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    # keys in the order of their bytes, whatever the database's language: pages go on after a key.
    # What begins with an underscore is the relay's. A record that the topic refuses would hold up
    # all that follow
    op.execute("""
        CREATE TABLE headrace.master_row (
            table_name text NOT NULL CHECK (table_name ~ '^[a-z0-9_]+$'
                                            AND table_name NOT IN ('device', 'device_model')),
            key        text COLLATE "C" NOT NULL CHECK (key <> '' AND key NOT LIKE '\\_%'),
            fields     jsonb NOT NULL CHECK (jsonb_typeof(fields) = 'object'
                                             AND octet_length(fields::text) <= 1048576),
            revision   bigint NOT NULL DEFAULT 1,
            updated_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (table_name, key)
        );

        CREATE TRIGGER count_revision BEFORE INSERT ON headrace.master_row
            FOR EACH ROW EXECUTE FUNCTION headrace.count_revision();
        CREATE TRIGGER count_changed_revision BEFORE UPDATE ON headrace.master_row
            FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
            EXECUTE FUNCTION headrace.count_revision();
    """)
    # a statement at once: an import may change a hundred thousand rows
    op.execute("""
        CREATE FUNCTION headrace.publish_master_rows() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                PERFORM headrace.send_row('master.' || table_name || '.v1', key, fields)
                    FROM after;
            ELSIF TG_OP = 'DELETE' THEN
                PERFORM headrace.send_row('master.' || table_name || '.v1', key, NULL)
                    FROM before;
            ELSE
                PERFORM headrace.send_row('master.' || table_name || '.v1', key, NULL)
                    FROM before LEFT JOIN after USING (table_name, key)
                    WHERE after.fields IS NULL;
                PERFORM headrace.send_row('master.' || table_name || '.v1', key, after.fields)
                    FROM after LEFT JOIN before USING (table_name, key)
                    WHERE before.fields IS DISTINCT FROM after.fields;
            END IF;
            RETURN NULL;
        END $$;

        CREATE TRIGGER publish_inserted AFTER INSERT ON headrace.master_row
            REFERENCING NEW TABLE AS after
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.publish_master_rows();
        CREATE TRIGGER publish_updated AFTER UPDATE ON headrace.master_row
            REFERENCING OLD TABLE AS before NEW TABLE AS after
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.publish_master_rows();
        CREATE TRIGGER publish_deleted AFTER DELETE ON headrace.master_row
            REFERENCING OLD TABLE AS before
            FOR EACH STATEMENT EXECUTE FUNCTION headrace.publish_master_rows();
        CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON headrace.master_row
            EXECUTE FUNCTION headrace.refuse_truncate();
    """)

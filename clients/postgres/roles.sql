-- The roles of a Headrace database, none of them a superuser. Run it in the database, as who may make
-- roles and owns what is there; once more does no harm. It sets no passwords: that is yours to do.
-- What each role may do is granted by `python -m stream_jobs migrate`, which runs as headrace_owner.
DO $$
DECLARE
    named text;
BEGIN
    FOREACH named IN ARRAY ARRAY[
        'headrace_owner', 'headrace_jobs', 'headrace_desk', 'headrace_gateway', 'headrace_reader'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = named) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', named);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), named);
    END LOOP;
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('ALTER DATABASE %I OWNER TO headrace_owner', current_database());

    -- what an earlier version made as another role
    FOR named IN SELECT oid::regnamespace FROM pg_namespace WHERE nspname = 'headrace' LOOP
        EXECUTE format('ALTER SCHEMA %s OWNER TO headrace_owner', named);
    END LOOP;
    FOR named IN SELECT oid::regclass FROM pg_class
        WHERE relnamespace = to_regnamespace('headrace') AND relkind IN ('r', 'p', 'v', 'm')
            AND relowner <> 'headrace_owner'::regrole LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO headrace_owner', named);
    END LOOP;
    FOR named IN SELECT oid::regprocedure FROM pg_proc
        WHERE pronamespace = to_regnamespace('headrace')
            AND proowner <> 'headrace_owner'::regrole LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO headrace_owner', named);
    END LOOP;
END $$;
ALTER ROLE headrace_reader SET default_transaction_read_only = on;

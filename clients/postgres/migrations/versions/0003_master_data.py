"""Master data of the sample domain: devices and their models."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE headrace.seed (
            name      text PRIMARY KEY,
            seeded_at timestamptz NOT NULL DEFAULT now()
        );

        CREATE TABLE headrace.device_model (
            name        text PRIMARY KEY CHECK (name <> ''),
            value_field text NOT NULL,
            unit        text NOT NULL,
            scale       double precision NOT NULL DEFAULT 1,
            "offset"    double precision NOT NULL DEFAULT 0
        );

        CREATE TABLE headrace.device (
            id         text PRIMARY KEY CHECK (id <> ''),
            area       text NOT NULL,
            model      text NOT NULL REFERENCES headrace.device_model (name),
            attributes jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(attributes) = 'object'),
            revision   bigint NOT NULL DEFAULT 1,
            updated_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE INDEX device_model_of ON headrace.device (model);

        CREATE TRIGGER count_revision BEFORE INSERT ON headrace.device
            FOR EACH ROW EXECUTE FUNCTION headrace.count_revision();
        CREATE TRIGGER count_changed_revision BEFORE UPDATE ON headrace.device
            FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
            EXECUTE FUNCTION headrace.count_revision();

        SELECT headrace.publish_table('headrace.device_model', 'master.device_model.v1', 'name');
        SELECT headrace.publish_table(
            'headrace.device', 'master.device.v1', 'id', 'updated_at'
        );
    """)

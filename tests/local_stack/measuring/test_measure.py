import pytest

from local_stack.measuring.measure import refuse_settings
from local_stack.terminal.errors import StackError


@pytest.mark.parametrize(
    "name",
    [
        "HEADRACE_KAFKA_BOOTSTRAP",
        "HEADRACE_KAFKA_SECURITY",
        "HEADRACE_POSTGRES_URL",
        "HEADRACE_CHECKPOINT_STORE",
        "HEADRACE_SPARK_MASTER",
        "HEADRACE_AUTH",
        "HEADRACE_TLS_CERT_FILE",
    ],
)
def test_no_load_goes_to_servers_of_the_user_s(name: str) -> None:
    with pytest.raises(StackError) as refused:
        refuse_settings({name: "kafka.example:9092", "HEADRACE_FLOW": "mine:FLOW", "HOME": "x"})
    assert refused.value.what.startswith(f"{name} is set")
    assert f"-u {name} ./headrace plan --measure" in refused.value.fix


def test_other_settings_stay_as_they_are() -> None:
    refuse_settings({"HEADRACE_PARTITIONS": "8", "HEADRACE_STATE_DIR": "x", "PATH": "y"})

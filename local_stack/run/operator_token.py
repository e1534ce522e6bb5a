"""The launcher's own credential, where the gateway wants to know who is asking: a new one at each
start, in a file that its user alone can read."""

import time
from pathlib import Path

from local_stack.terminal.errors import LOOK, StackError

_FILE = "operator-token"


def operator_token(state_dir: Path) -> str | None:
    try:
        return (state_dir / _FILE).read_text().strip()
    except FileNotFoundError:
        return None


def renew_operator_token(state_dir: Path, bootstrap: str) -> None:
    from gateway.auth import credential_topic
    from gateway.auth.caller import Caller
    from gateway.auth.credentials import Credential
    from gateway.auth.token import key_id_of, make_token
    from local_stack.machine.settings_check import kafka_at
    from shared.kafka_access import KafkaAwayError

    earlier, token = operator_token(state_dir), make_token()
    caller = Caller("operator", all_tenants=True)
    made_ms = time.time_ns() // 1_000_000
    kafka, credential = kafka_at(bootstrap), Credential(caller, "token", token.proof, None, made_ms)
    try:
        credential_topic.write(kafka, token.key_id, credential)
    except KafkaAwayError as error:
        raise StackError(str(error), LOOK) from error
    file = state_dir / _FILE
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(token.text + "\n")
    if earlier:
        credential_topic.write(kafka, key_id_of(earlier), None)


def forget_operator_token(state_dir: Path) -> None:
    """Nobody asks for it; whoever does so later gets a new one."""
    (state_dir / _FILE).unlink(missing_ok=True)

"""The names of consumer groups. Kafka grants rights by them; none of them ever has a member."""

GATEWAY = "headrace-gateway"
VIEW = "headrace-view"
DESK = "headrace-desk"
MASTER_VIEW = "headrace-master-view"
GATES = "headrace-gates"
HOOKS = "headrace-hooks"
LEDGER = "headrace-ledger"
SOURCES = "headrace-sources"
TRACES = "headrace-traces"
OPERATOR = "headrace-tail"
DEMO = "headrace-demo"
ORDERS = "headrace-orders"
HEALTHCHECK = "headrace-last-word"


def of_job(job: str) -> str:
    """Its committed offsets are the job's progress."""
    return f"headrace-{job}"

"""The names of consumer groups. Kafka grants rights by them; all but one never have a member."""

GATEWAY = "headrace-gateway"
VIEW = "headrace-view"
DESK = "headrace-desk"
# gateways among which states are divided: by it they know of each other
PEERS = "headrace-gateways"
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

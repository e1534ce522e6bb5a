"""What customers order a day, as views of the orders in `orders.py`.

PYTHONPATH=examples/orders HEADRACE_FLOW=order_views:FLOW ./headrace up
./headrace views show paid_by_day --sort -cents --limit 10
"""

from dataclasses import replace

from orders import FLOW as ORDERS
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.model import View
from shared.tables.column_types import Window

OPENED_BY_DAY = """
    SELECT tenant, customer, window, count(*) AS orders
    FROM opened
    GROUP BY tenant, customer, window(time, '1 day')
"""
# only the opening knows the customer, and only the payment the amount
PAID_BY_DAY = """
    SELECT o.tenant, o.customer, window, count(*) AS orders, sum(p.amount) AS cents
    FROM opened o JOIN paid p
        ON p.entity_id = o.entity_id AND p.time BETWEEN o.time AND o.time + INTERVAL 7 DAYS
    GROUP BY o.tenant, o.customer, window(p.time, '1 day')
"""


class OpenedByDay(TypedDict):
    tenant: str | None
    customer: str | None
    window: Window
    orders: int


class PaidByDay(TypedDict):
    tenant: str | None
    customer: str | None
    window: Window
    orders: int
    cents: int | None


FLOW: Flow = replace(
    ORDERS,
    views=(
        View("opened_by_day", ("opened",), OPENED_BY_DAY, ("tenant", "customer"), row=OpenedByDay),
        View(
            "paid_by_day",
            ("opened", "paid"),
            PAID_BY_DAY,
            ("tenant", "customer"),
            "final",
            row=PaidByDay,
        ),
    ),
)

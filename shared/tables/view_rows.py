"""What the job that writes a view's rows and the gateway that shows them agree on."""

import re

COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
WINDOW = "window"  # the column with a row's window of time
TENANT = "tenant"
# of GET /views, beside the columns of the key
PARAMETERS = "from", "until", "closed", "limit", "next", "sort", "from_now", "version"

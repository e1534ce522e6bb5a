"""The sample's events as Parquet files, in the folder `HEADRACE_TEST_LAKE`."""

import os
from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.model import ParquetFiles

_FOLDER = f"file://{os.environ.get('HEADRACE_TEST_LAKE', '/nowhere')}"
FLOW: Flow = replace(
    SAMPLE,
    parquet_files=(
        ParquetFiles("readings", ("reading",), _FOLDER, every_s=1),
        ParquetFiles("alarms", ("alarm_raised", "alarm_cleared"), _FOLDER, every_s=1),
    ),
)

"""The sample's states in search indexes."""

from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.model import SearchIndex

FLOW: Flow = replace(SAMPLE, search_indexes=(SearchIndex("device"), SearchIndex("area", "areas")))

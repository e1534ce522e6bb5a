"""What stands on each topic, for whoever reads or writes there: JSON Schema of values, headers and
keys, made from the flow's contracts."""

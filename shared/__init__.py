"""What both sides of the flow agree on: no engine, no driver."""

VERSION = "0.1.0"

"""What every test starts with."""

import os

# a JVM of Spark's lives here for seconds: what it compiled for a long life, nobody would use
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

"""The views of `nexmark_flow.py` in Flink's SQL and in Kafka Streams, which `view_rate.py` runs
beside ours. Maven fetches them and a JDK runs the sources as they are; the product needs neither.
"""

import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_OPENED = "java.util", "java.lang", "java.time", "java.util.concurrent", "java.net", "java.nio"
_SOURCES = {"flink": "FlinkViews.java", "streams": "StreamsViews.java"}
PEERS = tuple(_SOURCES)


def fetch(peer: str, folder: Path) -> Path:
    """Its jars, in a folder of their own."""
    its = folder / peer
    if not its.is_dir():
        if not (shutil.which("mvn") and shutil.which("java")):
            sys.exit(f"{peer} needs mvn and a JDK 17 or later on PATH")
        pom = str(_HERE / f"{peer}.xml")
        goal = f"-DoutputDirectory={its.absolute()}.part"
        subprocess.run(
            ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", goal], check=True
        )
        Path(f"{its}.part").rename(its)
    return its


def command(
    peer: str, jars: Path, query: str, bootstrap: str, folder: Path, group: str
) -> list[str]:
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    source = str(_HERE / _SOURCES[peer])
    given = [query, bootstrap, str(folder), group]
    return ["java", "-Xmx1500m", *opened, log, "-cp", f"{jars}/*", source, *given]

"""`./headrace version`: this release and the parts it is made of."""

import platform
import re
import tomllib
from importlib.metadata import version

from local_stack.machine.downloads import HASHES
from local_stack.machine.java import find_java
from local_stack.machine.paths import CHECKOUT


def versions() -> dict[str, str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return {
        "headrace": project["version"],
        "Python": platform.python_version(),
        "Java": find_java().version,
        "Spark": version("pyspark"),
        "Kafka": _from_jars(r"broker/kafka_2\.13-([\d.]+)\.jar"),
        "PostgreSQL": _from_jars(r"embedded-postgres-binaries-\S+-([\d.]+)\.jar"),
        "FastAPI": version("fastapi"),
    }


def _from_jars(pattern: str) -> str:
    match = re.search(pattern, HASHES.read_text())
    return match.group(1) if match else "unknown"

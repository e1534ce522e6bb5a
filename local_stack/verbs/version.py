import platform
import re
import tomllib
from importlib.metadata import version as version_of

from local_stack.machine.downloads import HASHES
from local_stack.machine.java import find_java
from local_stack.machine.paths import CHECKOUT
from local_stack.terminal.output import Output, OutputOption, say_found


def version(output: OutputOption = Output.TABLE) -> None:
    """The versions of Headrace and of its parts.

    Example: ./headrace version -o json
    """

    def from_jars(pattern: str) -> str:
        match = re.search(pattern, HASHES.read_text())
        return match.group(1) if match else "unknown"

    found = {
        "headrace": tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"],
        "Python": platform.python_version(),
        "Java": find_java().version,
        "Spark": version_of("pyspark"),
        "Kafka": from_jars(r"broker/kafka_2\.13-([\d.]+)\.jar"),
        "PostgreSQL": from_jars(r"embedded-postgres-binaries-\S+-([\d.]+)\.jar"),
        "FastAPI": version_of("fastapi"),
    }
    text = "\n".join(f"{name:<12} {number}" for name, number in found.items())
    say_found(found, text, output)

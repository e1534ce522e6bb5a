"""A real object store with S3's protocol, on this machine's disk."""

from pathlib import Path

import httpx

from local_stack.machine.downloads import fetch_for_tests
from local_stack.machine.java import find_java
from tests.java_server import JVM, JavaServer

BUCKET = "headrace-checkpoints"
_OF_IT = "com.adobe.testing.s3mock"


class ObjectStore(JavaServer):
    def __init__(self, folder: Path) -> None:
        super().__init__("S3Mock", folder)

    @property
    def access(self) -> dict[str, str]:
        """As all its clients know it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "headrace",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        }

    def make(self) -> list[str]:
        java = find_java()
        jars = fetch_for_tests(self.name, ["s3mock"], java)
        (self.home / "tmp").mkdir(parents=True)
        (jar,) = (jars / "s3mock").glob("*.jar")
        settings = {
            f"{_OF_IT}.httpPort": self._port,
            f"{_OF_IT}.store.root": self.home,
            f"{_OF_IT}.store.retain-files-on-exit": "true",
            f"{_OF_IT}.store.initial-buckets": BUCKET,
            "server.address": "127.0.0.1",
            "java.io.tmpdir": self.home / "tmp",
        }
        told = [f"-D{name}={value}" for name, value in settings.items()]
        return [java.command, "-Xmx192m", *JVM, *told, "-jar", str(jar), "--server.port=0"]

    def answers(self) -> bool:
        try:  # a list of all would fail for an object that was half written when it was killed
            return httpx.head(f"{self.url}/{BUCKET}", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

"""Files where Hadoop's file systems reach: on a disk, in HDFS or in an object store."""

from typing import Any

from pyspark.sql import SparkSession


class HadoopFiles:
    """All paths are relative to `root`, a URI."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        self.root = root
        self._path = jvm.org.apache.hadoop.fs.Path
        self._to_bytes = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._files: Any = self._path(root).getFileSystem(
            spark.sparkContext._jsc.hadoopConfiguration()
        )

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._at(path)))

    def below(self, folder: str) -> list[str]:
        """All files in it and in its folders, by their paths from there."""
        at = self._at(folder)
        if not self._files.exists(at):
            return []
        start = len(self._files.makeQualified(at).toString()) + 1
        found, listed = [], self._files.listFiles(at, True)
        while listed.hasNext():
            found.append(listed.next().getPath().toString()[start:])
        return sorted(found)

    def read(self, path: str) -> bytes:
        stream = self._files.open(self._at(path))
        try:
            return bytes(self._to_bytes(stream))
        finally:
            stream.close()

    def write_new(self, path: str, said: bytes) -> None:
        """All of it is there, or nothing. OSError where it is there already."""
        being_written = f"{path}.new"
        stream = self._files.create(self._at(being_written), True)
        stream.write(bytearray(said))
        stream.close()
        if self.exists(path):
            raise FileExistsError(self.uri(path))
        self.move(being_written, path)

    def move(self, path: str, to: str) -> None:
        self._files.mkdirs(self._at(to).getParent())
        if not self._files.rename(self._at(path), self._at(to)):
            raise OSError(f"{self.uri(path)} could not be moved to {self.uri(to)}")

    def delete(self, path: str) -> None:
        """With all that is in it; or nothing is there."""
        self._files.delete(self._at(path), True)

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _at(self, path: str) -> Any:
        return self._path(self.uri(path))

"""The folder of the domain on the path, as PYTHONPATH puts it there for who runs it."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "orders"
sys.path.insert(0, str(FOLDER))

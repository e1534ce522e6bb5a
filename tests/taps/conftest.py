"""The domain's folder on the path, as PYTHONPATH puts it there for who runs it."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "domain"
sys.path.insert(0, str(FOLDER))

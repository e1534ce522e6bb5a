"""The folders of the domains on the path, as PYTHONPATH puts them there for who runs them."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = [EXAMPLES / "fleet", EXAMPLES / "meter", Path(__file__).parent / "domain"]
sys.path[:0] = map(str, FOLDERS)

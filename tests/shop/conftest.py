"""Makes the example's module, and the test's own, known to the tests."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "shop"
QUICK = Path(__file__).parent / "domain"
sys.path[:0] = [str(folder) for folder in (FOLDER, QUICK) if str(folder) not in sys.path]

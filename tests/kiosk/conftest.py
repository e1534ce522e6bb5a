"""Makes the example's module known to the tests."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "kiosk"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))

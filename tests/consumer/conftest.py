"""The package on the path, as pip puts it there for who installs it."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "consumer"
sys.path.insert(0, str(FOLDER))

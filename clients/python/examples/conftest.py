"""What the suites have in common is beside them, and their parts beside each."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), *(str(HERE / suite) for suite in ("fio", "log_writer", "sqlite"))]

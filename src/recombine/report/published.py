"""What papers report, beside what is measured here; the values are data, not code.

The grade is the evidence behind a value: `paper` (printed there), `second-hand` (quoted by
others), `figure` (read from a figure), `derived` (from the authors' code, run again).
"""

from functools import cache
from pathlib import Path

import pandas as pd

FILE = Path(__file__).with_name("published.csv")


@cache
def published() -> pd.DataFrame:
    """Return the values by study, cell and measurement, with grade and source."""
    return pd.read_csv(FILE, dtype={"study": str, "cell": str, "measurement": str})

"""Removes a judge's preference for the answer that is shown first, or second.

    batch-calibration demo && python examples/judge.py demo_judge.jsonl

A line is a pair: {"candidate": "a", "question": 17, "candidate_first": true, "p_first": 0.31}. One
order of each pair is enough if a coin chose it. alpaca_eval's annotations.json is read, too.
"""

import sys
from pathlib import Path

import numpy as np

from batch_calibration.integrations import judges

path = Path(sys.argv[1] if len(sys.argv) > 1 else "demo_judge.jsonl")
judgments = judges.read_judgments([path])
for note in judgments.notes:  # about the columns that were read
    print(note)

# The mean log-odds of "the first answer is better", over both orders: 0 for a fair judge.
preference, error = judges.position_preference(judgments)
print(f"the judge prefers the first answer by {preference:+.2f} ± {error:.2f} nats")

# Log-odds that the candidate wins, as judged and without the preference.
raw = judges.candidate_log_odds(judgments.margins, judgments.is_first)
margins = judges.remove_preference(judgments, by_candidate=False)
corrected = judges.candidate_log_odds(margins, judgments.is_first)
removed = judges.place_preference(judgments), judgments.is_first
for index, name in enumerate(judgments.names):
    rows = judgments.candidate == index
    before = judges.win_rate(raw, judgments.question, rows)
    after = judges.win_rate(corrected, judgments.question, rows, removed)
    shown_first = np.mean(judgments.is_first[rows])
    print(f"{name}: wins {before} %, corrected {after} %, shown first in {shown_first:.0%}")

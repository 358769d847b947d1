"""Corrects scores of your own: a table or an array of log-probabilities, one column per label.

    batch-calibration demo && python examples/own_scores.py demo.csv label

Needs no model: `pip install .` and pandas are enough. Replace demo.csv by your file, and label by
its column of right answers, if it has one.
"""

import sys

import numpy as np
import pandas as pd

from batch_calibration import accuracy, calibrate, compare, diagnose, predict, recommend

path, gold = sys.argv[1:] or ("demo.csv", "label")
frame = pd.read_csv(path)
labels = [name for name in frame.columns if frame[name].dtype == float]  # or ["yes", "maybe", "no"]
if (frame[labels] >= 0).all(axis=None):
    frame[labels] = np.log(frame[labels])  # probabilities
# Columns such as prob_yes: frame = frame.rename(columns=lambda name: name.removeprefix("prob_"))

# Which label does the prompt prefer, and by how much? No right answer is used for these lines.
print(diagnose(frame, columns=labels))

# BC subtracts each label's mean score over the rows. It assumes about equally frequent labels.
corrected = calibrate(frame, columns=labels)
print("predictions:", *predict(frame, columns=labels)[:8], "->", *predict(corrected)[:8])

# If some labels are more frequent, pass their shares, or follow the advice.
shares = {name: 1 / len(labels) for name in labels}
matched = calibrate(frame, "prior_matching", target_prior=shares, columns=labels)
advice = recommend(frame, columns=labels)
print(advice)
advised = advice.apply(frame)

# With right answers: accuracy, and whether the gain exceeds noise.
if gold in frame:
    for name, scores in {"as they are": frame[labels], "bc": corrected, "advised": advised}.items():
        print(f"accuracy {name}: {accuracy(scores, frame[gold]):.1%}")
    print(compare(frame, frame[gold], columns=labels, methods=["icl", "bc", "bc_empirical_bayes"]))

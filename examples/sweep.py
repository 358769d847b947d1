"""Runs a study: shots x templates with a Flax model, a DataFrame of results, and one plot.

    python examples/sweep.py [WORKDIR]

Needs `pip install '.[experiments]'`, pandas. Each context is scored once: a second run finds all
scores in the workdir. `model` may be a folder of Hugging Face, and `data` a folder of your rows.
"""

# %% The settings of all contexts. batch_calibration/settings/__init__.py explains each key.
import sys
from pathlib import Path

import pandas as pd

from batch_calibration.settings import Settings
from batch_calibration.studies import Store, run_calibration, run_scoring

workdir = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
settings = Settings.of(model="mini", data="mini", limit=100, dc_texts=5)

# %% A sweep is an iterable of cells: here two templates, 0 to 2 shots per class, two seeds.
templates = {"plain": "", "question": "{sentence}\nPositive or negative? {label}"}
cells = [
    settings.cell("sst2", seed=seed, shots=shots, template=template)
    for template in templates.values()
    for shots in (0, 1, 2)
    for seed in range(2 if shots else 1)
]

# %% Score the contexts that the workdir does not have yet.
store = Store(workdir, create=True)
report = run_scoring(settings, cells, store, notify=print)
print(f"{len(report.ids)} contexts, {report.scored} of {report.inputs} inputs scored now")

# %% Calibrate: this needs no model and is fast.
tables, _ = store.tables()
records = run_calibration([t for t in tables if t.id in report.ids], ["icl", "cc", "dc", "bc"])
frame = records.to_pandas()
named = {text: name for name, text in templates.items()}
frame["template"] = frame["option_template"].fillna("").map(named)

# %% One tidy table: a row per context, method and metric.
accuracy = frame[frame["metric"] == "accuracy"]
means = accuracy.pivot_table("value", ["template", "shots"], "method") * 100
with pd.option_context("display.precision", 1):
    print(means[["icl", "cc", "dc", "bc"]])

# %% One plot.
from matplotlib import pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, len(templates), sharey=True, layout="constrained", figsize=(7, 3))
for panel, (name, group) in zip(axes, means.groupby(level="template"), strict=True):
    group.droplevel("template")[["icl", "bc"]].plot(ax=panel, marker="o", title=name)
    panel.set_xticks([0, 1, 2])
    panel.set_xlabel("shots per class")
axes[0].set_ylabel("accuracy (%)")
figure.savefig(workdir / "shots.png", dpi=120)
print(f"the plot is {workdir / 'shots.png'}")

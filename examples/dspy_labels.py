"""A DSPy module that corrects the label of a program by a batch of unlabeled inputs.

    API_KEY=... python examples/dspy_labels.py openai/MODEL http://127.0.0.1/v1 texts.txt no yes

Any `dspy.LM` works whose server returns log-probabilities. DSPy keeps those of all tokens, and the
position of the label among them is found by its text.
"""

import os
import sys
from pathlib import Path

import dspy
import numpy as np

from batch_calibration import Reading
from batch_calibration.estimator import LabelBiasCorrector
from batch_calibration.importers import tables_of


class CorrectedLabel(dspy.Module):
    """Predicts a label by another module, and subtracts the mean score of each label."""

    def __init__(self, module: dspy.Module, labels: list[str]):
        super().__init__()
        self.module, self.labels = module, labels
        self.corrector = LabelBiasCorrector(classes=labels)

    def scores(self, predictions: list[dspy.Prediction]) -> np.ndarray:
        """Returns the scores of the labels [n, k], in nats."""
        rows = [{"logprobs": prediction.logprobs} for prediction in predictions]
        (table,) = tables_of(rows, Reading(labels=tuple(self.labels), missing="least"))
        return table.blocks["test"].log_probs

    def fit(self, inputs: list[dict]) -> "CorrectedLabel":
        """Learns the bias from unlabeled inputs."""
        self.corrector.fit(self.scores([self.module(**one) for one in inputs]))
        return self

    def forward(self, **inputs: object) -> dspy.Prediction:
        """Predicts the corrected label; the model's own answer stays beside it."""
        prediction = self.module(**inputs)
        (label,) = self.corrector.predict(self.scores([prediction]))
        return dspy.Prediction(label=str(label), uncorrected=prediction)


if __name__ == "__main__":
    model, server, path, *labels = sys.argv[1:]
    key = os.environ.get("API_KEY", "none")
    lm = dspy.LM(model, api_base=server, api_key=key, logprobs=True, top_logprobs=20)
    dspy.configure(lm=lm)
    texts = Path(path).read_text(encoding="utf-8").splitlines()
    inputs = [{"text": text} for text in texts]
    predict = dspy.Predict(f"text -> label: Literal{labels}")
    program = CorrectedLabel(predict, labels).fit(inputs)
    for one in inputs:
        answer = program(**one)
        print(answer.label, answer.uncorrected.label, one["text"], sep="\t")

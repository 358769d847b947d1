"""Corrects skorch's zero-shot classifier, or any classifier with `predict_proba`.

python examples/skorch_labels.py MODEL texts.txt negative positive
"""

import sys
from pathlib import Path

import numpy as np
from skorch.llm import ZeroShotClassifier

from batch_calibration.estimator import LabelBiasCorrector

model, path, *labels = sys.argv[1:]
texts = Path(path).read_text(encoding="utf-8").splitlines()
classifier = ZeroShotClassifier(model).fit(X=None, y=labels)
# skorch normalizes over the labels: this moves all scores of a row alike, so no prediction moves.
scores = np.log(classifier.predict_proba(texts))
corrector = LabelBiasCorrector(classes=list(classifier.classes_)).fit(scores)
for text, before, after in zip(
    texts, classifier.predict(texts), corrector.predict(scores), strict=True
):
    print(after, before, text, sep="\t")

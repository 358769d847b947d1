"""Corrects a finished run: the log that lm-evaluation-harness writes with --log_samples.

    batch-calibration demo && python examples/harness_log.py demo_samples.jsonl

No model is run again. Logs of Inspect, lighteval and HELM are read by the same call. On the
command line `batch-calibration report LOG` writes a page of the same numbers.
"""

import sys

from batch_calibration import accuracy, calibrate, diagnose, read, recommend

for path in sys.argv[1:] or ["demo_samples.jsonl"]:
    for table in read(path):  # a table for each task of the log
        test = table.blocks["test"]  # log_probs [n, k] in nats, labels [n], ids
        choices = ", ".join(table.label_names)
        print(f"{table.context['task']}: {len(test.labels)} rows, choices {choices}")

        # Which choice does the model prefer, whatever the question?
        print(diagnose(test.log_probs, test.labels, label_names=table.label_names))

        # The advice uses the scores only, and says what it expects.
        advice = recommend(test.log_probs, label_names=table.label_names)
        print(advice)

        for name, scores in {
            "as they are": test.log_probs,
            "bc": calibrate(test.log_probs),
            "advised": advice.apply(test.log_probs),
        }.items():
            print(f"accuracy {name}: {accuracy(scores, test.labels):.1%}")

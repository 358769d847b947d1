"""Speed and memory of reading a log of lm-evaluation-harness.

python -m benchmarks.logs

14,042 rows of drawn words (as many as MMLU has) with four choices and five demonstrations.
"""

import json
import random
import resource
import tempfile
import time
from pathlib import Path

from batch_calibration import importers

ROWS, SHOTS, WORDS = 14_042, 5, 60


def write(path: Path, rows: int = ROWS, seed: int = 0) -> None:
    """Write a log as 0.4.13 does, with a bias toward one of the choices and some knowledge."""
    chance = random.Random(seed)
    bias = [chance.gauss(0, 0.7) for _ in range(4)]  # nats

    def question() -> str:
        return " ".join(f"w{chance.randrange(5000)}" for _ in range(WORDS)) + "\nA. a\nB. b\nC. c"

    shots = "".join(f"{question()}\nD. d\nAnswer: B\n\n" for _ in range(SHOTS))
    with path.open("w") as file:
        for i in range(rows):
            text, scores = question(), [-3 - abs(chance.gauss(0, 1) + b) for b in bias]
            scores[i % 4] += 0.5  # the right one
            prompt = f"{shots}{text}\nD. d\nAnswer:"
            arguments = {}
            for j, letter in enumerate("ABCD"):
                arguments[f"gen_args_{j}"] = {"arg_0": prompt, "arg_1": f" {letter}"}
            answers = [[str(score), "False"] for score in scores]
            row = {
                "doc_id": i,
                "doc": {"question": text},
                "target": str(i % 4),
                "arguments": arguments,
                "resps": [[answer] for answer in answers],
                "filtered_resps": answers,
                "filter": "none",
                "acc": float(scores.index(max(scores)) == i % 4),
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Write a log, read it, and print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples_drawn.jsonl"
        write(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        (table,) = importers.read(path)
        seconds = time.perf_counter() - start
        # The system gives ru_maxrss in KiB.
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rows = len(table.blocks["test"].labels)
        size = path.stat().st_size / 1e6
        print(f"{rows:,} rows, {size:.0f} MB: {seconds:.1f} s, {more:.0f} MiB more memory")


if __name__ == "__main__":
    main()

"""Times files of requests and answers: requests out, simulated answers in, score tables.

python -m benchmarks.request_files --rows=1000000 --shards=100

Each shard is a file of prompts, a context of its own. The simulated answers of all shards are
shuffled within blocks of 10 files, as a provider returns them, and have 20 tokens a row. The last
line gives the seconds of processor time per million rows of each step, and the peak memory.
"""

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from batch_calibration import cli

LABELS = ("no", "yes", "maybe")
TOKENS = [*LABELS, *(f"word{i}" for i in range(17))]
MEBIBYTE = 1 << 10  # kilobytes


def write_prompts(folder: Path, rows: int, shards: int) -> None:
    """Writes a file of prompts for each shard."""
    folder.mkdir()
    for shard in range(shards):
        with (folder / f"prompts{shard:03}.jsonl").open("w") as file:
            for row in range(rows // shards):
                text = f"Question {shard}-{row}: is the river longer than {row % 97} miles? Answer:"
                file.write(json.dumps({"id": row, "prompt": text}) + "\n")


def answer(line: str, draw: random.Random) -> str:
    """Returns the simulated answer to a line of requests: 20 tokens with log-probabilities."""
    tops = []
    for place, token in enumerate(draw.sample(TOKENS, len(TOKENS))):
        tops.append({"token": token, "logprob": round(-0.7 * (place + 1) - draw.random() / 10, 6)})
    first = {"token": tops[0]["token"], "logprob": tops[0]["logprob"], "top_logprobs": tops}
    choice = {"index": 0, "message": {"role": "assistant", "content": first["token"]}}
    choice |= {"logprobs": {"content": [first]}, "finish_reason": "length"}
    body = {"object": "chat.completion", "model": "simulated", "choices": [choice]}
    response = {"status_code": 200, "request_id": "r", "body": body}
    named = {"id": "b", "custom_id": json.loads(line)["custom_id"]}
    return json.dumps({**named, "response": response, "error": None}) + "\n"


def write_answers(requests: list[Path], folder: Path) -> None:
    """Writes the answers to files of requests, shuffled in blocks of ten files."""
    folder.mkdir()
    draw = random.Random(0)
    draw.shuffle(requests)
    for start in range(0, len(requests), 10):
        lines = list[str]()
        for path in requests[start : start + 10]:
            with path.open() as file:
                lines += [answer(line, draw) for line in file]
        draw.shuffle(lines)
        (folder / f"answers{start:05}.jsonl").write_text("".join(lines))


def steps(folder: Path, rows: int, shards: int) -> Iterator[str]:
    """Runs each step, and yields its name before it runs."""
    workdir = folder / "W"
    yield "prompts"
    write_prompts(folder / "prompts", rows, shards)
    yield "requests"
    files = ",".join(map(str, sorted((folder / "prompts").iterdir())))
    flags = [f"--prompts={files}", f"--labels={','.join(LABELS)}", "--model=simulated"]
    cli.run(["requests", *flags, f"--workdir={workdir}"])
    yield "engine (simulated)"
    write_answers(sorted((workdir / "requests").glob("*.jsonl")), folder / "answers")
    yield "answers"
    cli.run(["answers", str(workdir), str(folder / "answers")])


def peak_memory() -> float:
    """Returns the peak memory in MiB since the last call, and starts a new peak (Linux)."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / MEBIBYTE  # type: ignore[index]


def main() -> None:
    """Prints the seconds of each step and the peak memory after it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        step, began = "", 0.0
        for following in chain(steps(Path(name), args.rows, args.shards), [""]):
            if step:
                seconds = 1e6 * (time.process_time() - began) / args.rows
                peak = peak_memory()
                print(f"{step}: {seconds:.0f} s a million rows, peak {peak:,.0f} MiB", flush=True)
            step, began = following, time.process_time()


if __name__ == "__main__":
    main()

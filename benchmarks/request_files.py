"""Times files of requests and answers: requests out, simulated answers in, score tables.

python -m benchmarks.request_files --rows=1000000 --shards=100

Each shard is a file of prompts, a context of its own. The simulated answers of all shards are
shuffled within blocks of 10 files, as a provider returns them. The last
lines give the seconds of processor time per million rows of each command, and its peak memory.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from multiprocessing import Process
from pathlib import Path

LABELS = ("no", "yes", "maybe")
WORDS = tuple(f"word{i}" for i in range(17))
MEBIBYTE = 1 << 10  # kilobytes


def write_prompts(folder: Path, rows: int, shards: int) -> None:
    """Writes a file of prompts for each shard."""
    folder.mkdir()
    for shard in range(shards):
        with (folder / f"prompts{shard:03}.jsonl").open("w") as file:
            for row in range(rows // shards):
                text = f"Question {shard}-{row}: is the river longer than {row % 97} miles? Answer:"
                file.write(json.dumps({"id": row, "prompt": text}) + "\n")


def answer(line: str, draw: random.Random, tokens: int) -> str:
    """Returns the simulated answer to a line of requests: tokens with log-probabilities."""
    tops = []
    for place, token in enumerate(draw.sample([*LABELS, *WORDS][:tokens], tokens)):
        tops.append({"token": token, "logprob": round(-0.7 * (place + 1) - draw.random() / 10, 6)})
    first = {"token": tops[0]["token"], "logprob": tops[0]["logprob"], "top_logprobs": tops}
    choice = {"index": 0, "message": {"role": "assistant", "content": first["token"]}}
    choice |= {"logprobs": {"content": [first]}, "finish_reason": "length"}
    body = {"object": "chat.completion", "model": "simulated", "choices": [choice]}
    response = {"status_code": 200, "request_id": "r", "body": body}
    named = {"id": "b", "custom_id": json.loads(line)["custom_id"]}
    return json.dumps({**named, "response": response, "error": None}) + "\n"


def write_answers(requests: list[Path], folder: Path, tokens: int) -> None:
    """Writes the answers to files of requests, shuffled in blocks of ten files."""
    folder.mkdir()
    draw = random.Random(0)
    draw.shuffle(requests)
    for start in range(0, len(requests), 10):
        lines = list[str]()
        for path in requests[start : start + 10]:
            with path.open() as file:
                lines += [answer(line, draw, tokens) for line in file]
        draw.shuffle(lines)
        (folder / f"answers{start:05}.jsonl").write_text("".join(lines))


def run(*arguments: str) -> tuple[float, float]:
    """Runs a command in a process of its own; returns its processor seconds and peak MiB."""
    process = subprocess.Popen([sys.executable, "-m", "batch_calibration", *arguments])
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, arguments
    return used.ru_utime + used.ru_stime, used.ru_maxrss / MEBIBYTE


def main() -> None:
    """Prints the seconds of each command and its peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workdir = folder / "W"
        write_prompts(folder / "prompts", args.rows, args.shards)
        flags = [f"--prompts={folder}/prompts/*.jsonl", f"--labels={','.join(LABELS)}"]
        flags += ["--model=simulated", f"--workdir={workdir}"]
        spent = {"requests": run("requests", *flags)}
        requests = sorted((workdir / "requests").glob("*.jsonl"))
        # In its own process, because a child's peak includes the memory of the parent at its start.
        engine = Process(target=write_answers, args=(requests, folder / "answers", args.tokens))
        engine.start()
        engine.join()
        spent["answers"] = run("answers", str(workdir), str(folder / "answers"))
        kept = (workdir / "answers.sqlite").stat().st_size / args.rows
    for command, (seconds, peak) in spent.items():
        rate = 1e6 * seconds / args.rows
        print(
            f"{command}: {rate:.0f} s a million rows, {seconds:.0f} s in all, peak {peak:,.0f} MiB"
        )
    print(f"answers.sqlite: {kept:,.0f} bytes a row")


if __name__ == "__main__":
    main()

"""Sends the requests of a workdir to OpenAI as batches, and downloads the answers.

    batch-calibration requests --form=openai --model=MODEL --workdir=W
    API_KEY=... python examples/batch_api.py W --server=https://api.openai.com/v1
    batch-calibration answers W W/answers

Needs `pip install 'batch-calibration[api]'`. W/requests/batches.json has the ids of all batches:
the same command continues a stopped run, and sends no file twice unless its batch had no answer.
After `answers`, `requests --workdir=W` writes the remaining requests; then run this again.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import httpx2

flags = argparse.ArgumentParser()
flags.add_argument("workdir", type=Path)
flags.add_argument("--server", default="https://api.openai.com/v1")
flags.add_argument("--seconds", default=60.0, type=float, help="between two looks at a batch")
args = flags.parse_args()
requests, answers = args.workdir / "requests", args.workdir / "answers"
key = os.environ.get("API_KEY", "")
headers = {"Authorization": f"Bearer {key}"} if key else {}


def ask(method, path, **options):
    """Returns the answer to a request; a GET is repeated while the server is away."""
    while True:
        try:
            url = f"{args.server.rstrip('/')}/{path}"
            response = httpx2.request(method, url, headers=headers, timeout=600, **options)
            status, reason = response.status_code, response.text[:300]
            if response.is_success:
                return response
        except httpx2.TransportError as error:
            status, reason = 503, repr(error)
        message = f"{method} {path}: status {status}, {reason}".replace(key or "\0", "...")
        if method == "POST" or (status < 500 and status not in (408, 429)):
            sys.exit(message)
        print(message, file=sys.stderr)
        time.sleep(args.seconds)


# Digest of a file -> ids of the file and of its batch, and its end. `requests` replaces the files.
kept = requests / "batches.json"
batches = json.loads(kept.read_text()) if kept.exists() else {}


def keep(digest, **ids):
    """Stores ids at once, so that a stopped run loses none."""
    batches[digest] = batches.get(digest, {}) | ids
    kept.with_suffix(".new").write_text(json.dumps(batches, indent=1))
    kept.with_suffix(".new").replace(kept)


def running():
    """Returns the batches that have not ended, by digest."""
    return {d: ids["batch"] for d, ids in batches.items() if "batch" in ids and "end" not in ids}


lost = {ids["file"]: digest for digest, ids in batches.items() if "batch" not in ids}
if lost:  # A run may have stopped right after it created a batch.
    for batch in ask("GET", "batches", params={"limit": 100}).json()["data"]:
        if batch["input_file_id"] in lost:
            keep(lost[batch["input_file_id"]], batch=batch["id"])

files = {hashlib.sha256(p.read_bytes()).hexdigest(): p for p in sorted(requests.glob("*.jsonl"))}
# New files may repeat requests of a batch that still runs, which would be paid for twice.
is_early = bool(running().keys() - files.keys())
for digest, path in files.items():
    ids = batches.get(digest, {})
    if is_early or ("batch" in ids and ids.get("end") != "without an answer"):
        continue
    content = path.read_bytes()
    upload = {"files": {"file": (path.name, content)}, "data": {"purpose": "batch"}}
    batches[digest] = {}
    keep(digest, file=ask("POST", "files", **upload).json()["id"])
    body = {"input_file_id": batches[digest]["file"], "completion_window": "24h"}
    body["endpoint"] = json.loads(content.split(b"\n", 1)[0])["url"]
    keep(digest, batch=ask("POST", "batches", json=body).json()["id"])
    print(f"{path}: {batches[digest]['batch']}", flush=True)

answers.mkdir(exist_ok=True)
while running():
    for digest, name in running().items():
        batch = ask("GET", f"batches/{name}").json()
        if batch["status"] not in ("completed", "failed", "expired", "cancelled"):
            continue
        for kind in "output", "error":
            if file := batch.get(f"{kind}_file_id"):
                path = answers / f"{digest[:16]}-{kind}.jsonl"
                path.with_suffix(".part").write_bytes(ask("GET", f"files/{file}/content").content)
                path.with_suffix(".part").replace(path)
        keep(digest, end="answered" if batch.get("output_file_id") else "without an answer")
        errors = [error["message"] for error in (batch.get("errors") or {}).get("data", [])]
        print(f"{name}: {batch['status']}, {batch.get('request_counts')}", *errors[:3], flush=True)
    if running():
        time.sleep(args.seconds)
if is_early:
    print("The batches of earlier requests have ended; no other file was sent.")
print(f"next: batch-calibration answers {args.workdir} {answers}")
if is_early:
    print(f"then: batch-calibration requests --workdir={args.workdir}, and this command again")

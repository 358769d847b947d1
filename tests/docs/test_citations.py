"""Citations of the paper exist under their numbers; each method names its source.

The paper's contents stand here as a table: number -> words of the paper's caption, equation or
heading, and words of which one stands where it is cited.
"""

import ast
import inspect
import re
from functools import partial
from pathlib import Path

import pytest

from batch_calibration import METHODS
from experiments.evidence.paper import ITEMS

ROOT = Path(__file__).resolve().parents[2]
CONTENTS = {
    "eq": {
        "1": (r"\approx \frac{1}{M}", "mean"),
        "2": (r"\mathbf{p}(y|x_i, C)-\hat{\mathbf{p}}(y|C)\big]", "- b|mean|bias"),
        "3": (r"\frac{n}{n+1}", "running|mini-batch"),
        "4": (r"-\gamma\hat{\mathbf{p}}", "gamma|γ|strength"),
    },
    "fig": {
        "1": ("best performance on 1-shot ICL", "averaged over the tasks"),
        "2": ("SST-2 (top row)", "boundar"),
        "3": ("distribution of ICL scores", "distribution"),
        "4": ("Illustration of Batch Calibration", "illustrat"),
        "5": ("BC benefits from labeled data", "gamma|γ|strength"),
        "6": ("number of ICL shots", "shots"),
        "7": ("(ZS) image classification", "image"),
        "8": ("BC makes prompt engineering easier", "robust|choice of the prompt"),
        "9": ("insensitive to the batch size", "batch size|rows"),
        "10": ("all binary classification tasks", "boundar"),
        "11": ("adaptable batch calibration layer", "gamma|γ|strength"),
    },
    "table": {
        "1": ("mathematical formulation", "boundar|rotation"),
        "2": ("5 different in-context examples", "main table|13 tasks"),
        "3": ("zero-shot BC and the BCL", "BCL"),
        "4": ("Details of the dataset", "rows"),
        "5": ("0-shot PaLM 2-S and 1-shot PaLM 2-M", "zero-shot"),
        "6": ("We additionally report on UCF101", "image|CLIP"),
        "7": ("per example in Fig.", "templates|verbalizers"),
        "8": ("$k$-shot ICL experiments", "templates"),
        "9": ("templates for the robustness experiment", "templates"),
        "10": ("Verbalizer choices", "verbalizers"),
        "11": ("templates for the 0-shot experiments", "templates"),
    },
    "app": {
        "A": ("Additional Related Work", "related"),
        "B": ("Limitations and Future Work", "limitation|future"),
        "C": ("Dataset Statistics", "rows"),
        "D": ("Implementation Details", "mean|words|random|prototypes"),
        "E": ("Additional Experiments", "strength|boundar|CLIP"),
        "F": ("Prompt Templates", "templates"),
    },
    "sec": {
        "1": ("Introduction", "introduc"),
        "2": ("Related Work", "related"),
        "3": ("A Systematic Analysis of Calibration", "analysis|prototypes"),
        "3.1": ("Bias in Prompting", "bias"),
        "3.2": ("Overview of ICL Calibration Methods", "prototypes|divi|words"),
        "3.3": ("Design Principles", "boundar"),
        "4": ("Batch Calibration", "mean"),
        "5": ("Experiments", "tasks"),
        "5.1": ("Experimental Setup", "tasks"),
        "5.2": ("Main Experiments", "tasks"),
        "5.3": ("Robustness and Ablation", "robust|rows"),
        "6": ("Conclusion", "conclu"),
    },
}
NUMBER = r"(?:\d+(?:\.\d+)?|[A-Z])\b"
NUMBERS = rf"({NUMBER}(?:(?:, | and | to ){NUMBER})*)"
CITED = re.compile(rf"\b(?i:(eq|fig|table|app|sec)(?:uation|ure|endix|tion)?s?\.?) {NUMBERS}")
WORK = re.compile(r"(\w+)(?: et al\.| and \w+),? \d{4}|\b(paper)\b|\b(their|algorithm)\b")
VENUES = r"arXiv:\d{4}\.\d{5}|Neural Computation|ICML|ICLR|ACL|EMNLP|NAACL|NeurIPS|TACL|Statist"
VENUE = re.compile(VENUES)


def cited(text):
    """Kind and number of each thing of the paper that a text cites; of other works nothing."""
    for match in CITED.finditer(text):
        kind, numbers = match[1].lower(), match[2]
        works = WORK.findall(re.split(r"(?<!al)\. (?=[A-Z])|\n\n", text[: match.start()])[-1])
        author, _, author_2 = works[-1] if works else ("", "", "")
        if author not in ("", "Zhou") or author_2:
            continue
        ends = re.fullmatch(r"(\d+) to (\d+)", numbers)
        span = range(int(ends[1]), int(ends[2]) + 1) if ends else re.findall(NUMBER, numbers)
        yield from ((kind, str(number)) for number in span)


def wrong(text, context=""):
    """A text's citations that do not exist, or are about something else."""
    for kind, number in cited(text):
        _, pattern = CONTENTS[kind].get(number, ("", "nothing of that number"))
        if not re.search(pattern, f"{context} {text}", re.I):
            yield f"{kind} {number}: expected {pattern} in {text!r}"


def texts(path):
    """Every string of a file; what is put together of several parts is checked where it is used.

    So is a number alone, which names a table or figure of results.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner_strings = {id(child) for node in joined for child in node.values}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        alone = isinstance(text, str) and re.fullmatch(r"(Table|Figure) \d+", text)
        if isinstance(text, str) and id(node) not in inner_strings and not alone:
            yield text


FOLDERS = "batch_calibration", "configs", "experiments"
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def test_numbers_in_docstrings_are_the_paper_s():
    assert not [citation for path in FILES for text in texts(path) for citation in wrong(text)]
    citations = {citation for path in FILES for text in texts(path) for citation in cited(text)}
    assert {("fig", "5"), ("fig", "6"), ("app", "D"), ("eq", "3"), ("table", "11")} <= citations


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.number)
def test_results_stand_under_the_paper_s_numbers(item):
    kind, number = ("fig", "table")[item.number.startswith("Table")], item.number.split()[1]
    assert re.search(CONTENTS[kind][number][1], item.shows, re.I)


def test_numbers_in_the_docs_are_the_paper_s():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    lines = [line for page in pages for line in page.splitlines() if "paper" in line]
    assert not [citation for line in lines for citation in wrong(line)]
    assert [citation for line in lines for citation in cited(line)]


@pytest.mark.parametrize("name", METHODS)
def test_each_method_names_its_source(name):
    row = METHODS[name]
    function = row.factory.func if isinstance(row.factory, partial) else row.factory
    description = f"{name} {row.probe.description} {inspect.getdoc(function)}"
    assert not list(wrong(row.source, description))
    # Made of another of the table, or published: authors, year, and where.
    ours = re.match(rf"({'|'.join([*METHODS, *map(str.upper, METHODS)])})\b", row.source)
    assert ours or (WORK.search(row.source) and VENUE.search(row.source)), row.source


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("the strength (Fig. 4)", False),
        ("the strength (Fig. 5)", True),
        ("the shots: the paper's Fig. 5", False),
        ("mean of log p, Zhou et al. 2024, app. B", False),
        ("mean of log p, Zhou et al. 2024, app. D", True),
        ("the mean (eq. 1 and 5)", False),
        ("the templates (Tables 8 to 12)", False),
        ("Zhao et al. 2021, section 9", True),
        ("Saerens et al. 2002, Neural Computation 14(1), eq. 2.9", True),
        ("Zhao et al. 2021, as in Zhou et al. 2024, app. G", False),
    ],
)
def test_a_wrong_number_is_found(text, is_known):
    assert (not list(wrong(text))) == is_known


def test_the_table_above_is_the_paper_s(shared):
    paper = (shared / "paper" / "batch_calibration.tex").read_text(encoding="utf-8")
    body, appendix = paper.split(r"\appendix")
    captions = {"figure": [], "table": []}
    # A figure beside text (wrapfigure) counts where it stands; each \caption has its number.
    inside = re.compile(r"\\begin\{(?:wrap)?(figure|table)\*?\}.*?\\end\{(?:wrap)?\1\*?\}", re.S)
    for match in inside.finditer(paper):
        captions[match[1]] += re.findall(r"\\caption\{(.*)", match[0])
    contents = {"fig": captions["figure"], "table": captions["table"]}
    contents["eq"] = re.findall(r"\\begin\{align\}(.*?)\\end\{align\}", paper, re.S)
    contents["app"] = re.findall(r"\\section\{(.*?)\}", appendix)
    for kind, items in contents.items():
        assert len(items) == len(CONTENTS[kind]), kind
        for (number, (title, _)), item in zip(CONTENTS[kind].items(), items, strict=True):
            assert title in item, (kind, number)
    sections, count = [], [0, 0]
    for level, name in re.findall(r"\\(sub)?section\{(.*?)\}", body):
        count = [count[0], count[1] + 1] if level else [count[0] + 1, 0]
        sections.append((f"{count[0]}.{count[1]}" if level else f"{count[0]}", name))
    for (number, name), (ours, (title, _)) in zip(sections, CONTENTS["sec"].items(), strict=True):
        assert number == ours and title in name

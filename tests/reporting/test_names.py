"""Names in records from elsewhere: they stay names in paths, tables, pages and the terminal."""

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product

import pytest
from making import make_by_rows, make_curve, make_record

from batch_calibration.reporting import writing
from batch_calibration.reporting.cells import Best, NumberCell, latex, markdown
from batch_calibration.reporting.items import Results
from batch_calibration.studies import Store, csv_text, write_results

OF_NUMBERS = ("-methods", "-spread", "-by-shots")  # tables without names of contexts
NAME = '=../../../x[/b]|<i>&"%$#_{}~^\\\n`*$\\frac'


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A workdir four folders deep whose every name is `NAME`, and its results."""
    workdir = tmp_path_factory.mktemp("top") / "a/b/c/w"
    store = Store(workdir, create=True)
    details = dict.fromkeys(("model", "data", "split", "served"), NAME)
    accuracies = {"icl": 0.5, "bc": 0.6, "cc": 0.5, "dc": 0.4, "bc_mean_prob": 0.4}
    contexts = product(("rte", NAME), ({}, {"template": NAME}), (0, 1))
    for number, (task, options, shots) in enumerate(contexts):
        fields = {"labels": (NAME, "_"), "bias": {"bc": (0.1, -2.0)}, "strength": 0.5}
        fields |= {
            "curve": make_curve([0.5] * 101),
            "probe_size": make_by_rows([2], bc=[[0.4, 0.5]]),
        }
        context = {**details, "options": {"over_long": NAME, **options}, "shots": shots}
        record = make_record(task, accuracies, context=context, **fields)
        store.put_record(replace(record, id=f"{number:016x}"))
    return store, Results(store.records())


@pytest.mark.slow
def test_nothing_is_written_beside_the_workdir(results):
    store, records = results
    for table in writing.write_tables(records, store.workdir / "tables"):
        writing.print_tables([table])
    writing.write_figures(records, store.workdir / "figures")
    writing.write_report(records, store.workdir / "report.html")
    top = store.workdir.parents[3]
    files = [path.relative_to(top) for path in top.rglob("*") if path.is_file()]
    folders = {path.parent.name for path in files}
    assert folders == {"records", "tables", "figures", "w"}
    assert {path.parts[:4] for path in files} == {("a", "b", "c", "w")}
    assert len(list(store.workdir.glob("figures/*.png"))) == len(writing.make_figures(records))


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)


def test_a_name_is_no_markup_in_the_page(results, tmp_path):
    writing.write_report(results[1], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "x[/b]|&lt;i&gt;&amp;" in page and "i" not in Tags(page).found


def test_a_name_is_no_formula_in_csv(results, tmp_path):
    writing.write_tables(results[1], tmp_path)
    write_results(results[0].records(), tmp_path)
    for path in tmp_path.glob("*.csv"):
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert any(NAME in cell for cell in cells) or path.stem.endswith(OF_NUMBERS), path
        assert not [cell for cell in cells if re.match(r"[=@]|\+(?!\d)", cell)]
    plain_cells = ["-1.5", "+2", "1 ± 2", NumberCell("-0.5 ± 0.1"), "-", "-3e-05", "a=b"]
    quoted = ["=1", "+a", "-a", "@x", "\tx", "-1+cmd|x"]
    (row,) = csv.reader([csv_text([[*plain_cells, *quoted]])])
    assert row == [*plain_cells, *(f"'{cell}" for cell in quoted)]


def test_a_name_is_text_in_latex():
    (row,) = [line for line in latex([["a"], [NAME], ["b"]]).splitlines() if "frac" in line]
    plain = row.removesuffix(r" \\")
    assert not re.search(r"(?<!\\)[&%$#_~^]", plain)
    commands = re.findall(r"\\([A-Za-z]+|.)", plain)
    assert set(commands) == {*"&%$#_{}", "textasciitilde", "textasciicircum", "textbackslash"}


def test_a_name_is_one_cell_in_markdown():
    table = markdown([["a", "b"], [NAME, Best("c")], [NAME, NAME]])
    for line in table.splitlines():
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    assert len(table.splitlines()) == 4 and r"\[/b\]\|\<i\>" in table and "**c**" in table

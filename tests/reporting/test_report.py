"""The report in a real browser: its tables, figures, colors, widths, and what it asks for."""

import csv
import io
import re
from base64 import b64decode
from itertools import product

import numpy as np
import pytest
from browser import browser, requests, set_scheme, set_width

from batch_calibration.diagnosis.recommend import recommend_tables
from batch_calibration.methods.run import task_of
from batch_calibration.metrics import Estimate
from batch_calibration.reporting import palette, writing
from batch_calibration.reporting.cells import Sums, estimate_cell, mark_best
from batch_calibration.reporting.frame import level_title
from batch_calibration.reporting.items import Results, Table
from batch_calibration.reporting.page import make_page, table_html
from batch_calibration.scores import ScoreTable, make_block
from batch_calibration.studies import Store, calibrate_store, runs

TASKS = ("rte", "sst2", "cb", "copa", "wic", "boolq")
METHODS = ("icl", "cc", "dc", "pc", "bc", "bcl", "bc_running")
ROWS = {"test": 24, "cc": 3, "dc": 5, "labeled": 24}
TEXT = 'a text with <b>marks</b>, "quotes" & a very long tail ' + 60 * "word "
TYPED = "python -m experiments.score --config=configs/<mine>.py"
CONFIG = {"data": "mini", "tasks": ["rte", "sst2"]}
FACTS = (8, "1 x cpu", "abc123", {"jax": "1.2"}, 240, 9.5)
RUN = runs.Run("2026-01-02 03:04:05", TYPED, CONFIG, *FACTS)


@pytest.fixture(scope="module")
def results(planted, tmp_path_factory):
    """A workdir of two tasks, two seeds, two shots and three templates, calibrated."""
    store = Store(tmp_path_factory.mktemp("w"), create=True)
    usual = {"shots": 1, "split": "validation", "limit": 0, "model": "m"}
    usual |= {"scorer": {"kind": "causal_lm"}}
    varied = [{}, {"shots": 0}, *({"options": {"template": t}} for t in "234")]
    for (number, task), seed in product(enumerate(TASKS), range(2)):
        for index, context in enumerate(varied if task in ("rte", "sst2") else varied[:1]):
            planted_rows = planted(24, 2, 7 * number + seed + 100 * index)[:2]
            scores, labels = map(np.asarray, planted_rows)
            ids, blocks = [f"{task}/validation/{i}" for i in range(24)], {}
            for name, rows in ROWS.items():
                gold = labels if rows == 24 else None
                blocks[name] = make_block(scores[:rows], gold, row_ids=ids[:rows])
            fields = {**usual, "task": task, "seed": seed, **context}
            store.put(ScoreTable(fields, ("no", "yes"), blocks))
    calibrate_store(store, METHODS, probe_sizes=(4, 8), draws=2)
    return Results(store.records(), store.table_of)


def write(results, path):
    writing.write_report(results, path, runs=[RUN, RUN], source="W")
    return path


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return write(results, tmp_path_factory.mktemp("page") / "report.html")


OPEN = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


@pytest.fixture(scope="module")
def driver(page, tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as browser_driver:
        browser_driver.get(page.as_uri())
        browser_driver.execute_script(OPEN)
        yield browser_driver


def wait(driver, script):
    """Wait until the script returns what is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 60).until(lambda web_driver: web_driver.execute_script(script))


def test_the_page_is_the_same_each_time_and_small_enough(results, page, tmp_path):
    assert write(results, tmp_path / "report.html").read_bytes() == page.read_bytes()
    assert len(page.read_bytes()) < 4e6


DRAWN = ("gains", "robustness", "shots", "probe-size", "boundaries")


def test_figures_are_in_the_page_with_titles_and_numbers(page):
    text = page.read_text()
    found = dict(re.findall('<figure id="figure-([^"]+)">(.*?)</figure>', text, re.S))
    assert set(found) == {f"m-{slug}" for slug in DRAWN}
    for name, figure in found.items():
        assert figure.count("<svg ") == 1 and 'role="img" aria-label="' in figure
        assert "<title>" in figure and f'download="{name}.csv"' in figure
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert 'href="data:image/png;base64,' in found["m-boundaries"]  # the dots
    panels = [one.strip() for one in re.findall("<text[^>]*>([^<]*)</text>", found["m-gains"])]
    assert {"bc", "cc", "dc", "pc", "bcl"} <= set(panels)


def test_each_context_has_its_sentences_and_its_shares(page, results):
    text = page.read_text()
    count = len(results.records)
    assert text.count('class="context"') == count and "Averaged over 24 rows, the scores" in text
    names = re.findall('class="context"><summary>([^<]*)<', text)
    assert len({*names}) == count and "RTE, template 2, 1-shot, seed 0" in names


def test_every_figure_gives_its_numbers(page):
    text = page.read_text()
    files = re.findall(r'<a class="csv" download="([^"]+)" href="data:[^,]+,([^"]+)"', text)
    assert len(re.findall("<figure id=", page.read_text())) == len(files)
    for name, data in files:
        head, *rows = csv.reader(io.StringIO(b64decode(data).decode()))
        assert rows and all(len(row) == len(head) for row in rows), name


def test_the_page_works_without_its_program(page):
    program = re.findall("<script>(.*?)</script>", page.read_text(), re.S)
    assert len(program) == 1 and "Plotly" not in program[0] and len(program[0]) < 7000


def test_the_first_screen_is_the_card_and_the_runs_are_last(page, results):
    text, title = page.read_text(), "Label bias of m on 6 tasks: 4 templates × shots 0, 1 × 2 seeds"
    order = [f"<h1>{title}</h1>", 'class="card"', "With Batch Calibration (bc)"]
    order += ['class="answers"', "On average, a context&#x27;s most", 'class="do"', "Biased?"]
    order += ['class="picture dots"', 'id="details"', 'id="run"', 'id="words"']
    assert [text.index(h) for h in order] == sorted(text.index(h) for h in order)
    assert f"<title>{title}, 2026-01-02</title>" in text
    body = text[text.index("<body>") :]
    assert " open" not in re.findall(r'<details class="section"[^>]*>', body)
    assert "<span>--workdir=W</span>" in text or "<span>recommend(W,</span>" in text
    run_section = text[text.index("<h3>Runs</h3>") :]
    assert run_section.count("<code>") == 1 and "configs/&lt;mine&gt;.py" in run_section
    assert run_section.count("2026-01-02 03:04:05 UTC: 240 rows in 9.5 s") == 2
    assert "8 contexts on 1 x cpu. Commit abc123. jax 1.2." in run_section
    assert "<dt>tasks</dt><dd>rte, sst2</dd>" in run_section
    assert "has no facts about scoring runs" in make_page([], [])
    assert "<h3>Runs</h3>" not in make_page([])


def test_the_dots_of_the_card_are_the_numbers_of_the_tables(page, results):
    """Each level of each factor has its name, its accuracies and their difference."""
    card = page.read_text().split('class="picture dots"')[1].split("</figure>")[0]
    pattern = r'end">([^<]+)</text><path.*?>([\d.]+) → ([\d.]+)</text><text.*?>([^<]+)<'
    found = re.findall(pattern, card)
    group = results.studies["m"]
    expected = []
    for name in group.varying:
        part = group.board if name == "task" else group.matched(name).frame
        for (level,), frame in part.by(name).items():
            pair = [100 * frame.average(method) for method in ("icl", "bc")]
            title = level_title(name, level)
            expected.append((title, *(f"{x:.1f}" for x in pair), f"{pair[1] - pair[0]:+.1f}"))
    assert found == expected and len(found) == 6 + 4 + 2 + 2


def test_a_page_advises_what_recommend_advises(results):
    tables = [results.load(record) for record in results.records]
    advised = recommend_tables(tables, [*map(task_of, tables)])
    verdicts = writing.judge_records(results)
    for record, advice in zip(results.records, advised, strict=True):
        assert verdicts[record.id].advice.source == advice.source
        assert verdicts[record.id].advice.shares == advice.shares


def test_nothing_is_asked_for_and_nothing_fails(driver):
    assert [url for url in driver.get_log("browser") if url["level"] == "SEVERE"] == []
    addresses = requests(driver)
    assert addresses and not [url for url in addresses if url.startswith(("http", "ws"))]


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_the_page_never_scrolls_sideways_and_values_stay_whole(driver, width):
    set_width(driver, width)
    driver.execute_script(OPEN)
    wide = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert wait(driver, wide)
    broken = """return [...document.querySelectorAll('td')]
        .filter(cell => { const range = document.createRange(); range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(box => Math.round(box.top / 8))).size > 1;
        }).map(cell => cell.textContent)"""
    assert driver.execute_script(broken) == []
    moved = """const box = document.querySelector('.table'), first = box.querySelector('tbody th');
        box.scrollLeft = 0; const before = first.getBoundingClientRect().left;
        box.scrollLeft = 150; const after = first.getBoundingClientRect().left;
        box.scrollLeft = 0; return after - before"""
    assert abs(driver.execute_script(moved)) < 1
    set_width(driver, 1280)


TABLE = ".table[data-file=m-by-task]"
COLUMN = f"""return [...document.querySelector('{TABLE}').querySelectorAll(arguments[0])]
    .filter(row => !row.hidden).map(row => row.cells[arguments[1]].textContent)"""


def test_a_click_or_a_key_sorts_and_sums_stay_below(driver):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    buttons = driver.find_elements(By.CSS_SELECTOR, f"{TABLE} thead button")
    column = [button.text for button in buttons].index("bc")
    below = driver.execute_script(COLUMN, "tfoot tr", 0)
    assert below and below[0] == "average"
    for sign in (-1, 1):
        driver.execute_script("arguments[0].focus()", buttons[column])
        buttons[column].send_keys(Keys.ENTER)
        shown = [float(x.split()[0]) for x in driver.execute_script(COLUMN, "tbody tr", column)]
        assert shown == sorted(shown, key=lambda x: sign * x) and len(set(shown)) > 1
        state = buttons[column].find_element(By.XPATH, "..").get_attribute("aria-sort")
        assert state == ("ascending" if sign == 1 else "descending")
    driver.execute_script("arguments[0].click()", buttons[0])
    names = driver.execute_script(COLUMN, "tbody tr", 0)
    assert names == sorted(names, key=str.lower) and len(names) == 6
    assert driver.execute_script(COLUMN, "tfoot tr", 0) == below


def test_a_field_filters_rows(driver):
    from selenium.webdriver.common.by import By

    field = driver.find_element(By.CSS_SELECTOR, f".tools:has(+ {TABLE}) input")
    field.send_keys("sst")
    (name,) = driver.execute_script(COLUMN, "tbody tr", 0)
    assert name.startswith("SST-2")
    assert "1 of 6 rows" in field.find_element(By.XPATH, "..").text
    field.clear()
    field.send_keys(" ")
    assert len(driver.execute_script(COLUMN, "tbody tr", 0)) == 6


def test_intervals_are_parts_of_typed_cells():
    gain = estimate_cell(Estimate(0.015, 0.002, 0.028), "*")
    text = table_html(Table("a", "b", "c", [["", "x", "y"], ["row", gain, str(gain)]]))
    assert "<td>+1.5<span> [+0.2, +2.8]</span>*</td><td>+1.5 [+0.2, +2.8]*</td>" in text
    (best,) = mark_best([1.5], [gain])
    assert "<td><b>+1.5</b><span>" in table_html(Table("a", "b", "c", [["", "x"], ["row", best]]))


def test_only_sums_stand_in_the_footer():
    cells = [["label", "share"], ["no", "61"], ["yes", "39"]]
    data = table_html(Table("a", "labels", "Labels", cells))
    assert "<tfoot>" not in data and data.count('<th scope="row">') == 2
    summed = table_html(Table("a", "sums", "Sums", [*cells[:2], Sums(cells[2])]))
    assert summed.count("<tfoot>") == 1 and ">yes</th>" in summed.split("<tfoot>")[1]


def test_intervals_show_until_the_box_hides_them(driver):
    spans = "[...document.querySelectorAll('td span')]"
    seen = f"return {spans}.filter(x => x.checkVisibility()).length"
    driver.execute_script(OPEN)
    assert driver.execute_script(seen) > 10
    driver.execute_script("document.getElementById('intervals').click()")
    assert driver.execute_script(seen) == 0
    driver.execute_script("document.getElementById('intervals').click()")


def test_a_table_is_saved_as_it_stands(driver):
    """The page makes the file when it is asked for: a cell with a comma is quoted."""
    driver.execute_script("""window.saved = []; const make = URL.createObjectURL;
        URL.createObjectURL = (file) => {
            file.text().then((text) => saved.push(text));
            return make(file);
        };
        document.querySelector('.table[data-file=m-verdicts] + a.csv').click()""")
    (text,) = wait(driver, "return saved.length && saved")
    head, *rows = csv.reader(io.StringIO(text))
    assert head[:3] == ["context", "gain", "before"] and "rows" in head and len(rows) == 28
    assert {len(row) for row in rows} == {len(head)}
    sizes = [abs(float(row[1].split()[0])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)  # the largest effect first, losses too


def test_a_link_opens_what_is_closed(driver, page):
    driver.execute_script("document.querySelectorAll('details').forEach(d => { d.open = false; })")
    driver.execute_script("location.hash = 's0-t1'")
    wait(driver, "return document.getElementById('s0-t1').open")


def test_dark_is_dark_and_paper_is_white(driver):
    ink = "return getComputedStyle(document.querySelector('figure svg text')).fill"
    back = "return getComputedStyle(document.body).backgroundColor"
    assert driver.execute_script(back) == "rgb(255, 255, 255)"
    light = driver.execute_script(ink)
    set_scheme(driver, "dark")
    wait(driver, f"{ink} !== '{light}'".replace("return ", "return ", 1))
    assert driver.execute_script(back) == "rgb(21, 24, 28)"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert driver.execute_script(back) == "rgb(255, 255, 255)"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    set_scheme(driver, "light")


@pytest.mark.slow
def test_the_page_is_printed_whole(driver):
    driver.execute_script(OPEN)
    pdf = b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") >= 3


def luminance(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_colors_have_the_contrast_that_wcag_asks_for(page):
    light, dark = re.findall(r":root[^{]*\{([^}]+)\}", page.read_text())[:2]
    for block in (light, dark):
        css = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for back in ("page", "raised"):
            assert min(contrast(css[name], css[back]) for name in ("ink", "faint", "link")) >= 4.5
        drawn = (*palette.METHOD_COLORS.values(), *palette.SPARES, *palette.LABEL_COLORS)
        assert min(contrast(color, css["page"]) for color in drawn) >= 3

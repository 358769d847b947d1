"""The site of docs/ opened from a folder: its search answers, dark mode, and nothing is fetched."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, check=True, env=quiet)
    return folder


def test_nothing_is_fetched(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'(?:src|<link[^>]*href)="(https?://[^"]*)"', page.read_text())
        assert not loaded, page.name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_search_answers_from_a_folder(site, tmp_path, scheme):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with browser(tmp_path, scheme=scheme) as driver:
        driver.get((site / "index.html").as_uri())
        driver.find_element(By.TAG_NAME, "body").send_keys("f")  # the theme's key for the search
        field = driver.find_element(By.CSS_SELECTOR, ".md-search__input")
        WebDriverWait(driver, 20).until(lambda _: field.is_displayed())
        driver.switch_to.active_element.send_keys("demonstrations")
        found = (By.CSS_SELECTOR, ".md-search-result__item")
        results = WebDriverWait(driver, 20).until(lambda _: driver.find_elements(*found))
        assert len(results) >= 3
        chosen = driver.find_element(By.TAG_NAME, "body").get_attribute("data-md-color-scheme")
        assert chosen == {"light": "default", "dark": "slate"}[scheme]

"""A headless Chromium for tests of pages; a test that needs it says what is missing."""

import json
import os
import shutil
from contextlib import contextmanager

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def browser(profile, width=1280, scheme="light"):
    """A browser with a profile of its own, a window so wide, and a preferred color scheme."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        lacking = pytest.fail if os.environ.get("REQUIRE_TOOLS") == "1" else pytest.skip
        lacking("needs chromium and chromedriver: make tools installs them")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    web_driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        set_width(web_driver, width)
        set_scheme(web_driver, scheme)
        yield web_driver
    finally:
        web_driver.quit()


def set_width(driver, width):
    """The window's width in pixels."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def set_scheme(driver, scheme):
    """Which colors the reader prefers: light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def requests(driver):
    """The addresses that pages asked for since this was called last."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [entry["params"] for entry in messages if entry["method"] == "Network.requestWillBeSent"]
    return [entry["request"]["url"] for entry in sent]

"""Runs the console program `batch-calibration` as `python -m batch_calibration`."""

from batch_calibration.cli import main

if __name__ == "__main__":
    main()

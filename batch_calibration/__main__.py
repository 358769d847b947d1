"""`python -m batch_calibration` is the console program `batch-calibration`."""

from batch_calibration.cli import main

if __name__ == "__main__":
    main()

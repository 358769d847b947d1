"""The calibration wing: pure JAX, no Flax, no files; a calibrator is a pair of functions."""

"""Corrections inside Inspect and lm-evaluation-harness, of judges, and of large Parquet files."""

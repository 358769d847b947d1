"""Parquet larger than memory: read in batches, corrected in two passes, written whole or not."""

from batch_calibration.integrations.streams.correction import Progress, Streamed, correct_stream

__all__ = ["Progress", "Streamed", "correct_stream"]

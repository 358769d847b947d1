"""What was run, in words: command, date, device, versions, commit, config."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from batch_calibration.store import Run

NONE = (
    "This workdir keeps no facts about scoring runs: its scores came from elsewhere, or from a "
    "version that kept none."
)


def html(runs: Sequence[Run]) -> str:
    """A line a run; runs that differ only in when they were and what they did, are one."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(repr(replace(run, began="", rows=None, seconds=None)), []).append(run)
    lines = "\n".join(f"<li>{_line(some)}</li>" for some in alike.values())
    return f'<ol class="runs">{lines}</ol>' if runs else f"<p>{NONE}</p>"


def _line(runs: Sequence[Run]) -> str:
    first = runs[0]
    parts = [
        f"<code>{escape(first.command)}</code>",
        f"<p>{escape('; '.join(_done(run) for run in runs))}.</p>",
        f"<p>{first.contexts:,} contexts on {escape(first.device)}. {escape(_code(first))}</p>",
    ]
    keys = "\n".join(f"<dt>{escape(k)}</dt><dd>{_value(v)}</dd>" for k, v in first.config.items())
    if keys:
        parts.append(f"<details><summary>Settings</summary><dl>{keys}</dl></details>")
    return "\n".join(parts)


def _done(run: Run) -> str:
    if run.rows is None or run.seconds is None:
        return f"{run.began} UTC: did not come to its end"
    return f"{run.began} UTC: {run.rows:,} rows in {run.seconds:,.1f} s"


def _code(run: Run) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    commit = f"Commit {run.commit}. " if run.commit else ""
    return f"{commit}{versions}."


def _value(value: object) -> str:
    several = isinstance(value, list | tuple)
    return escape(", ".join(map(str, value)) if several else str(value))  # type: ignore[call-overload]

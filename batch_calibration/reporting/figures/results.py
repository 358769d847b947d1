"""The figure of a diagnosis, a recommendation or a comparison, for notebooks and scripts."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from batch_calibration.diagnosis import Comparison, Diagnosis, Recommendation
from batch_calibration.errors import InputError
from batch_calibration.metrics import Estimate
from batch_calibration.reporting.figures.intervals import draw_estimates, draw_forest
from batch_calibration.reporting.figures.preferences import draw_preferences
from batch_calibration.reporting.figures.style import Drawn


def plot(result: Diagnosis | Recommendation | Comparison, title: str = "scores") -> Figure:
    """The figure of what `diagnose`, `recommend` or `compare` returned, by matplotlib.

    Of a diagnosis it is the preference for each label with ± 2 standard errors, and the shares of
    labels before and after; of a recommendation the accuracy of each method that was measured,
    without labels the gain to expect; of a comparison the gain of each method over ICL. Intervals
    are at 95 %. The figure is matplotlib's: `plot(found).savefig("found.png")`. A notebook shows it
    once, and pyplot does not keep it.

    Args:
        result: what is drawn.
        title: what the scores are called.

    Raises:
        InputError: another object; a recommendation of which no gain is known; a comparison
            without ICL.

    >>> from batch_calibration import diagnose
    >>> figure = plot(diagnose(20 * [[-1.0, -3.0], [-2.0, -2.5]], label_names=("no", "yes")))
    >>> [axes.get_ylabel().split()[0] for axes in figure.axes]
    ['mean', 'share']
    """
    return _draw(result, title).figure


def _draw(result: object, title: str) -> Drawn:
    if isinstance(result, Diagnosis):
        return draw_preferences([result], [title])
    if isinstance(result, Comparison):
        gains = {row.method: row.gain for row in result.results if row.gain}
        if not gains:
            raise InputError(
                where="plot", expected="a comparison with icl and another method",
                got=", ".join(row.method for row in result.results), remedy="compare icl, too",
            )  # fmt: skip
        return _draw_gains(gains, f"Gain over icl: {title}, {result.rows:,} labeled rows")
    if isinstance(result, Recommendation):
        if result.measured:
            return draw_estimates({title: result.measured}, "Each judged by what other rows teach")
        if gain := result.expected.gain:
            heading = f"Gain to expect: {title} ({result.expected.source})"
            return _draw_gains({result.short: gain}, heading)
        raise InputError(
            where="plot", expected="a recommendation with measured accuracies or a gain to expect",
            got=f"{result.short}, of which nothing is known",
            remedy="give recommend labeled rows (labeled=, labels=)",
        )  # fmt: skip
    raise InputError(
        where="plot", expected="what diagnose, recommend or compare returned",
        got=type(result).__name__, remedy="give one of these",
    )  # fmt: skip


def _draw_gains(gains: Mapping[str, Estimate], heading: str) -> Drawn:
    pairs = {method: (gain, gain.beyond_noise) for method, gain in gains.items()}
    label, columns = "gain in accuracy (points)", ("", "method")
    return draw_forest({"gain": pairs}, list(gains), label, heading, columns)

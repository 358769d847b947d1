"""Checks that every figure passes: no two texts overlap, no color has two meanings."""

from itertools import combinations

from matplotlib import colors

NEUTRAL = {"#000000", "#ffffff", "#eeeeee"}


def check(figure):
    """Fail where texts of the figure overlap or a color stands for two things."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown_texts(figure)]
    overlapping = []
    for (one, box), (other, around) in combinations(boxes, 2):
        # A pixel at each edge is no letter.
        if box.padded(-1).overlaps(around.padded(-1)):
            overlapping.append((one, other))
    assert not overlapping, overlapping[:5]
    meanings, looks = {}, {}
    for color, name in legend_entries(figure):
        # A level of a method is the method's: "bc, all rows".
        meanings.setdefault(color, set()).add(name.removesuffix(", all rows"))
        looks.setdefault(name, set()).add(color)
    twice = {c: n for c, n in meanings.items() if len(n) > 1 and c not in NEUTRAL}
    assert not twice, twice
    twice = {name: c for name, c in looks.items() if len(c) > 1}
    assert not twice, twice


def shown_texts(figure):
    """The texts that are seen: tick labels beyond the ends of an axis are not."""
    found = list(figure.texts)
    for legend in figure.legends:
        found += legend.get_texts()
    for axes in figure.axes:
        if not axes.axison:
            continue
        found += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            pad = 1e-6 * (high - low)
            for tick in axis.get_major_ticks():
                if low - pad <= tick.get_loc() <= high + pad:
                    found += [tick.label1, tick.label2]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def legend_entries(figure):
    """The color and the name of each thing that panels name."""
    found = []
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.append((_color(handle), name))
    return found


def _color(handle):
    if hasattr(handle, "patches"):  # bars
        return colors.to_hex(handle.patches[0].get_facecolor())
    if hasattr(handle, "get_color"):
        color = handle.get_color()
        return colors.to_hex(color if isinstance(color, str) else color[0])
    return colors.to_hex(handle.get_edgecolor()[0])


def titles(figure):
    """The titles of its panels."""
    return [axes.get_title(loc="left") for axes in figure.axes if axes.axison]


def columns(cells):
    """The columns of a figure's numbers by their name."""
    header, *rows = cells
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))

"""Plots as SVG, by hand: bars with their spread, and lines. Both on logarithmic axes."""
import math
from xml.sax.saxutils import escape

WIDTH = 820
RIGHT = 80
ROW = 22
LETTER = 8  # the width of a letter of a label, rather too wide than cut off
COLOURS = ["#2563a8", "#c2571a", "#3f8f4f", "#8a4fa3", "#b0892c"]
STYLE = ("text{font:13px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}"
         ".axis{stroke:#bbb;stroke-width:1}.small{font-size:11px;fill:#555}"
         "@media (prefers-color-scheme:dark){text{fill:#ddd}.small{fill:#aaa}.axis{stroke:#555}}")


def number(value):
    """Three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def tick_text(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def scale_of(low, high, begin, end):
    """A logarithmic axis, and its ticks at powers of ten."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)

    def place(value):
        part = (math.log10(max(value, 10 ** first)) - first) / (last - first)
        return begin + part * (end - begin)
    return place, [10 ** power for power in range(first, last + 1)]


def svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}"><style>{STYLE}</style>\n' + "\n".join(parts)
            + "\n</svg>\n")


def text(x, y, words, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
            f"{escape(words)}</text>")


def line(x1, y1, x2, y2, colour=None, width=1):
    look = f'stroke="{colour}" stroke-width="{width}"' if colour else 'class="axis"'
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def bars(title, unit, rows, spread):
    """`rows`: (label, value, low, high, colour's number); None for a gap. `spread`: what low and high are."""
    values = [value for row in rows if row for value in row[1:4] if value > 0]
    left = 24 + LETTER * max(len(row[0]) for row in rows if row)
    place, ticks = scale_of(min(values), max(values), left, WIDTH - RIGHT)
    bottom = 50 + ROW * len(rows)
    parts = [text(10, 24, f"{title} ({unit})", "title"),
             text(10, bottom + 36, f"Logarithmic scale. Bar: {spread[0]}; grey line: {spread[1]}.", "small")]
    for tick in ticks:
        parts += [line(place(tick), 40, place(tick), bottom),
                  text(place(tick), bottom + 16, tick_text(tick), "small", "middle")]
    for index, row in enumerate(rows):
        if row is None:
            continue
        label, value, low, high, colour = row
        y = 46 + ROW * index
        parts += [text(left - 8, y + 13, label, "", "end"),
                  f'<rect x="{left}" y="{y + 2}" width="{max(place(value) - left, 1):.1f}" '
                  f'height="{ROW - 8}" fill="{COLOURS[colour]}"/>',
                  line(place(low), y + 9, place(high), y + 9, "#888", 2),
                  text(max(place(high), place(value)) + 6, y + 13, number(value), "small")]
    return svg(WIDTH, bottom + 46, parts)


def lines(title, unit, across_what, series):
    """`series`: {label: [(x, y), ...]}; `across_what`: what x is."""
    points = [point for values in series.values() for point in values]
    across, x_ticks = scale_of(min(x for x, _ in points), max(x for x, _ in points), 80, 600)
    high = max(y for _, y in points)
    up, y_ticks = scale_of(max(min(y for _, y in points), high / 1e4), high, 300, 50)
    parts = [text(10, 24, f"{title} ({unit})", "title"),
             text(80, 338, f"Across: {across_what}. Both scales are logarithmic.", "small")]
    for tick in x_ticks:
        parts += [line(across(tick), 50, across(tick), 300),
                  text(across(tick), 318, tick_text(tick), "small", "middle")]
    for tick in y_ticks:
        parts += [line(80, up(tick), 600, up(tick)),
                  text(74, up(tick) + 4, tick_text(tick), "small", "end")]
    for index, (label, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in values)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  *(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>'
                    for x, y in values),
                  text(622, 66 + 20 * index, label), line(606, 62 + 20 * index, 618, 62 + 20 * index, colour, 3)]
    return svg(WIDTH, 348, parts)

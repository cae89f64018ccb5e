"""Draws a run as an SVG: a lane for each contender with its terms, a lane for the faults, hand-overs and breaches."""
import html

from history import fault_spans

LABEL, WIDTH, LANE, GAP = 130, 1400, 16, 3
COLOURS = ["#4878a8", "#58a066", "#c08a3e", "#8a64a8", "#3e9a9a", "#b05a7a"]


class Picture:
    def __init__(self, begin, end):
        self.begin = begin
        self.scale = WIDTH / max(end - begin, 1)
        self.end = end
        self.rows = 0
        self.shapes = []

    def x(self, at):
        return LABEL + (min(max(at, self.begin), self.end) - self.begin) * self.scale

    def lane(self, label):
        """Returns the top of a new lane."""
        top = self.rows * (LANE + GAP) + 30
        self.rows += 1
        self.shapes.append(f'<text x="4" y="{top + 12}">{html.escape(label)}</text>'
                           f'<line x1="{LABEL}" x2="{LABEL + WIDTH}" y1="{top + LANE}"'
                           f' y2="{top + LANE}" stroke="#e4e4e4"/>')
        return top

    def bar(self, top, begin, end, colour, title):
        left, right = self.x(begin), self.x(end)
        self.shapes.append(f'<rect x="{left:.1f}" y="{top + 1}" width="{max(right - left, 0.6):.1f}"'
                           f' height="{LANE - 2}" fill="{colour}">'
                           f"<title>{html.escape(title)}</title></rect>")

    def step(self, at, top, next_top):
        """A hand-over, from one lane to another."""
        x = self.x(at)
        self.shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + LANE / 2}"'
                           f' y2="{next_top + LANE / 2}" stroke="#999"/>')

    def mark(self, at, colour, title):
        x = self.x(at)
        bottom = self.rows * (LANE + GAP) + 30
        self.shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{bottom}" stroke="{colour}"'
                           f' stroke-dasharray="3,2"><title>{html.escape(title)}</title></line>')

    def axis(self):
        for second in range(int((self.end - self.begin) / 1e9) + 1):
            x = self.x(self.begin + second * 10**9)
            self.shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="24" stroke="#888"/>')
            if second % 5 == 0:
                self.shapes.append(f'<text x="{x:.1f}" y="14">{second} s</text>')

    def text(self):
        height = self.rows * (LANE + GAP) + 40
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 20}"'
                f' height="{height}" font-family="sans-serif" font-size="11">'
                f'<rect width="100%" height="100%" fill="white"/>' + "".join(self.shapes) + "</svg>\n")


def draw_faults(picture, events):
    """Each in the first lane that is free."""
    lanes = []
    for name, victim, begin, end in fault_spans(events):
        lane = next((one for one in lanes if one[1] <= begin), None)
        if lane is None:
            lane = [picture.lane("faults"), 0]
            lanes.append(lane)
        lane[1] = max(end, begin + int(60 / picture.scale))
        picture.bar(lane[0], begin, end, "#d9534f", f"{name} of {victim}, {(end - begin) / 1e9:.2f} s")
        picture.shapes.append(f'<text x="{picture.x(begin):.1f}" y="{lane[0] + 12}" font-size="9">'
                              f"{html.escape(name)}</text>")


def draw_terms(picture, mutex, terms):
    """One lane for each contender; processes that were started anew share it."""
    lanes, owner = {}, None
    for term in terms:
        label = term.process().split("-")[0]
        if label not in lanes:
            lanes[label] = picture.lane(f"{mutex} {label}")
        if owner is not None and owner != label:
            picture.step(term.begin, lanes[owner], lanes[label])
        owner = label
        colour = COLOURS[list(lanes).index(label) % len(COLOURS)]
        picture.bar(lanes[label], term.begin, term.end, colour,
                    f"{term.who} owns '{mutex}' with token {term.fence} for"
                    f" {(term.end - term.begin) / 1e6:.0f} ms")


def draw(history, breaches):
    """The text of the picture."""
    events = history.events
    last = max([event.at for event in events] + [0])
    picture = Picture(history.start, last)
    picture.axis()
    draw_faults(picture, events)
    for mutex, terms in sorted(history.terms_by_mutex().items()):
        draw_terms(picture, mutex, terms)
    for event in history.of("led", "unled"):
        picture.mark(event.at, "#bbbbbb", f"{event.kind} {' '.join(event.words)}")
    for breach in breaches:
        picture.mark(breach.at, "#e00000", f"{breach.rule}: {breach.text}")
    return picture.text()

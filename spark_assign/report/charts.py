"""Charts: specifications of Vega-Lite, which vl-convert renders as SVG in a page or as a file.

Colors have the names of the page's style sheet. In a page, a name becomes a CSS variable, so that a chart follows light
and dark mode; in a file, it becomes a color for white paper, and SVG has another one for dark mode. Vega-Lite accepts
only colors, so a unique placeholder color stands for each name until then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from spark_assign.report.formatting import visible
from spark_assign.stores.locations import publish
from spark_assign.tables.errors import ConfigError, needs_extra

if TYPE_CHECKING:
    from markupsafe import Markup

COLORS = {
    "text": ("#1a1e23", "#e7eaee"),
    "quiet": ("#515a64", "#a7b0ba"),
    "line": ("#d9dfe5", "#343c46"),
    "page": ("#ffffff", "#14171b"),
    "calm": ("#d5e1ed", "#26384a"),
    "calm-edge": ("#7d93a8", "#6f8ba6"),
    "problem": ("#c2410c", "#f08a4b"),
    "is": ("#1f6db0", "#5aa2e0"),
    "round": ("#515a64", "#a7b0ba"),
    "second": ("#2e7d4f", "#63c08c"),
}
"""Colors for white paper and for dark mode, by the name in the page's style sheet."""

ON_PAPER, IN_THE_DARK = ({name: pair[at] for name, pair in COLORS.items()} for at in (0, 1))

STROKES: tuple[tuple[str, list[int]], ...] = (
    ("problem", []),
    ("is", [9, 4]),
    ("text", [2, 4]),
    ("second", [12, 4, 2, 4]),
)
"""Color names and dash patterns of lines. Lines differ in both, so none relies on its color."""

NARROW = 330
"""Width of a chart for narrow screens, in pixels."""

_WIDTH: ContextVar[int] = ContextVar("_WIDTH", default=700)
P = ParamSpec("P")

_PLACEHOLDERS = {name: f"#fe00{index:02x}" for index, name in enumerate(ON_PAPER, start=1)}
DARK_STYLE = "<style>@media (prefers-color-scheme: dark) {{{}}}</style>".format(
    "".join(
        f'[{paint}="{ON_PAPER[name]}"]{{{paint}:{dark}}}'
        for name, dark in IN_THE_DARK.items()
        for paint in ("fill", "stroke")
    )
)
_FONT = "DejaVu Sans, Verdana, sans-serif"
_NOISE = re.compile(
    r' (?:class|pointer-events|aria-hidden|role|aria-roledescription|font-family|stroke-miterlimit)="[^"]*"'
    r'| opacity="1"| transform="translate\(0,0\)"| xmlns(?::xlink)?="[^"]*"| version="1.1"'
)
_EMPTY = re.compile(
    r'<path[^>]* d=""[^>]*/>|<path d="M0,0h[\d.]+v[\d.]+h-?[\d.]+Z"(?: display="none")?/>|<g></g>|<g[^>]*/>'
)
_LONG_DECIMAL = re.compile(r"(?<!\d)\d+\.\d{3,}")
_TAG = re.compile("<[^<>]*>")
"""What is changed in a picture: texts are names, and stay."""
_LOCAL_ID = re.compile(r'id="([\w-]+)"|url\(#([\w-]+)\)')


@dataclass(frozen=True)
class Chart:
    """A view, or several. `spec`: its specification in Vega-Lite. Each method returns a changed copy."""

    spec: Mapping[str, Any]

    def mark(self, kind: str, **looks: Any) -> Chart:
        """Sets the kind of the marks, such as `rect`, and their looks."""
        return self.properties(mark={"type": kind, **looks})

    def encode(self, **channels: str | Mapping[str, Any]) -> Chart:
        """Adds channels: a field, as for `channel`, or an encoding."""
        new = {name: channel(value) if isinstance(value, str) else value for name, value in channels.items()}
        return self.properties(encoding={**self.spec.get("encoding", {}), **new})

    def properties(self, **values: Any) -> Chart:
        """Sets properties of the view, such as its width."""
        return Chart({**self.spec, **values})


_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal", "T": "temporal"}


def channel(field: str, **settings: Any) -> dict[str, Any]:
    """Returns the encoding of a field, whose name ends with the letter of its type: `level:Q`. A secondary channel,
    such as `x2`, has no type."""
    name, _, letter = field.partition(":")
    return {"field": name, **({"type": _TYPES[letter]} if letter else {}), **settings}


def constant(value: float) -> dict[str, float]:
    """Returns the encoding of a fixed position in pixels."""
    return {"value": value}


def labels(names: Sequence[str | list[str]]) -> str:
    """Returns an expression for the labels of an axis of numbers from 0: names, or the lines of names."""
    return f"{json.dumps(_visible(names))}[datum.value]"


def layer(*charts: Chart) -> Chart:
    """Returns charts on top of each other."""
    return Chart({"layer": [chart.spec for chart in charts]})


def vconcat(*charts: Chart, spacing: int) -> Chart:
    """Returns charts below each other."""
    return Chart({"vconcat": [chart.spec for chart in charts], "spacing": spacing})


def hconcat(*charts: Chart) -> Chart:
    """Returns charts side by side."""
    return Chart({"hconcat": [chart.spec for chart in charts]})


def chart_of(values: Sequence[Mapping[str, Any]]) -> Chart:
    """Returns a chart that contains these rows, without marks."""
    return Chart({"data": {"values": list(values)}})


def width() -> int:
    """Returns the width of the chart that is drawn, in pixels (`at_both_widths`)."""
    return _WIDTH.get()


def at_both_widths(draw: Callable[P, Markup]) -> Callable[P, Markup]:
    """Decorates a function that draws a chart `width` wide: it draws a second one for narrow screens.

    The page shows one of them, so that texts are as large on a phone as on a desk.
    """

    @wraps(draw)
    def draw_both(*args: P.args, **given: P.kwargs) -> Markup:
        narrow = copy_context()
        narrow.run(_WIDTH.set, NARROW)
        return draw(*args, **given) + narrow.run(draw, *args, **given)

    return draw_both


def color(name: str) -> str:
    """Returns the placeholder for a named color."""
    return _PLACEHOLDERS[name]


def inline_svg(chart: Chart, ident: str, title: str, description: str) -> Markup:
    """Returns a chart as inline SVG for a page, without namespaces, with a title and a description for screen readers.

    Args:
        chart: The chart.
        ident: Prefix of the ids in the SVG, unique in the page.
        title: Title of the chart.
        description: What the chart shows; empty if it shows nothing.
    """
    from markupsafe import Markup, escape

    ident, looks = (f"{ident}-n", ' class="narrow"') if width() == NARROW else (ident, "")
    svg = _TAG.sub(lambda tag: _NOISE.sub("", tag[0]), _render_svg(chart))
    for _ in range(2):
        svg = _EMPTY.sub("", svg)
    svg = _TAG.sub(lambda tag: _named(tag[0], ident), svg)
    tag, _, body = svg.partition(">")
    view_box = re.search(r'viewBox="[^"]*"', tag)
    assert view_box is not None
    words = description or "There is nothing to show."
    return Markup(
        f'<svg{looks} role="img" aria-labelledby="{ident}-t" aria-describedby="{ident}-d" {view_box[0]}>'
        f'<title id="{ident}-t">{escape(title)}</title><desc id="{ident}-d">{escape(words)}</desc>{body}'
    )


def write_chart(chart: Chart, path: str) -> None:
    """Writes a chart on white paper to a file in the format of its name: .svg, .png, or .pdf.

    Raises:
        ConfigError: If the format is unknown, or vl-convert isn't installed.
        OSError, SourceError: The file can't be written (`publish`).
    """
    svg = _render_svg(chart)
    import vl_convert

    for name, placeholder in _PLACEHOLDERS.items():
        svg = svg.replace(placeholder, ON_PAPER[name])
    tag, _, body = svg.partition(">")
    svg = f'{tag}><rect width="100%" height="100%" fill="{ON_PAPER["page"]}"/>{body}'
    suffix = Path(path).suffix
    if suffix == ".svg":
        content = svg.replace(">", f">{DARK_STYLE}", 1).encode()
    elif suffix == ".png":
        content = vl_convert.svg_to_png(svg, scale=1.5)
    elif suffix == ".pdf":
        content = vl_convert.svg_to_pdf(svg)
    else:
        raise ConfigError(f"{path}: pictures are svg, png or pdf")
    publish(content, Path(path))


def _render_svg(chart: Chart) -> str:
    """Returns a chart as SVG in the style of the reports, with at most two decimals."""
    with needs_extra("drawing needs vl-convert-python", "report"):
        import vl_convert
    quiet, text = color("quiet"), color("text")
    config = {
        "background": "transparent",
        "font": _FONT,
        "padding": 4,
        "aria": False,
        "view": {"stroke": None},
        "text": {"color": text, "fontSize": 12},
        "title": {"color": text, "fontSize": 12, "fontWeight": 600, "anchor": "start", "offset": 8},
        "axis": {
            "labelColor": quiet,
            "labelFontSize": 12,
            "titleColor": quiet,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "grid": False,
            "domainColor": quiet,
            "tickColor": quiet,
        },
        "legend": {"labelColor": text, "titleColor": text, "labelFontSize": 11, "labelLimit": 260},
    }
    svg = vl_convert.vegalite_to_svg(_visible({**chart.spec, "config": config}))
    return _TAG.sub(lambda tag: _LONG_DECIMAL.sub(_shorter, tag[0]), svg)


def _visible(value: Any) -> Any:
    """Returns a part of a specification with `visible` texts. SVG can't have most control characters, and vl-convert
    ends the process for them.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value


def _shorter(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _named(tag: str, ident: str) -> str:
    """Returns a tag with CSS variables for colors, and with ids that are unique in the page."""
    for name, placeholder in _PLACEHOLDERS.items():
        tag = tag.replace(placeholder, f"var(--{name})")
    return _LOCAL_ID.sub(lambda match: match[0].replace(match[1] or match[2], f"{ident}-{match[1] or match[2]}"), tag)

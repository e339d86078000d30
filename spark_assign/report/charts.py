"""Charts: Altair says what is drawn, vl-convert draws it, as SVG in a page or as a file of its own.

Colours have names here, as in the page's style sheet. In a page a name becomes a CSS variable, so that a chart follows
light and dark; in a file it becomes a colour for white paper. In between, a name is a colour that nothing else has, as
Vega-Lite takes colours only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_assign.tables.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    import altair as alt
    from markupsafe import Markup

ON_PAPER = {
    "text": "#1a1e23",
    "quiet": "#515a64",
    "line": "#d9dfe5",
    "page": "#ffffff",
    "calm": "#d5e1ed",
    "calm-edge": "#7d93a8",
    "problem": "#c2410c",
    "is": "#1f6db0",
    "round": "#515a64",
    "second": "#2e7d4f",
}
"""The colours, by name; the page's style sheet has the same names, for light and for dark."""

STROKES: tuple[tuple[str, list[int]], ...] = (
    ("problem", []),
    ("is", [9, 4]),
    ("text", [2, 4]),
    ("second", [12, 4, 2, 4]),
)
"""So many lines look different, by their colour and by their dashes."""

_STANDS_FOR = {name: f"#fe00{at:02x}" for at, name in enumerate(ON_PAPER, start=1)}
_FONT = "DejaVu Sans, Verdana, sans-serif"
_NOISE = re.compile(
    r' (?:class|pointer-events|aria-hidden|role|aria-roledescription|font-family|stroke-miterlimit)="[^"]*"'
    r'| opacity="1"| transform="translate\(0,0\)"| xmlns(?::xlink)?="[^"]*"| version="1.1"'
)
_EMPTY = re.compile(
    r'<path[^>]* d=""[^>]*/>|<path d="M0,0h[\d.]+v[\d.]+h-?[\d.]+Z"(?: display="none")?/>|<g></g>|<g[^>]*/>'
)
_LONG = re.compile(r"\d+\.\d{3,}")
_OWN = re.compile(r'id="([\w-]+)"|url\(#([\w-]+)\)')


def altair() -> Any:
    """The library.

    Raises:
        ConfigError: it is not installed, or what draws its charts is not.
    """
    try:
        import altair
        import vl_convert  # noqa: F401  (here, not after everything was computed)
    except ImportError as error:
        raise missing_extra("drawing needs altair and vl-convert-python", "report") from error
    return altair


def colour(name: str) -> str:
    """What stands for one of the colours in a chart."""
    return _STANDS_FOR[name]


def inline(chart: alt.TopLevelMixin, ident: str, title: str, told: str) -> Markup:
    """A chart for a page: without a name space, and with a title and a description for those who cannot see it.

    Args:
        chart: what is drawn.
        ident: begins the ids in it, so that several charts stand in one page.
        title: its name.
        told: what it shows, in words.
    """
    from markupsafe import Markup, escape

    drawn = _NOISE.sub("", _svg(chart))
    for _ in range(2):
        drawn = _EMPTY.sub("", drawn)
    for name, stands_for in _STANDS_FOR.items():
        drawn = drawn.replace(stands_for, f"var(--{name})")
    drawn = _OWN.sub(lambda found: found[0].replace(found[1] or found[2], f"{ident}-{found[1] or found[2]}"), drawn)
    head, _, rest = drawn.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    return Markup(
        f'<svg role="img" aria-labelledby="{ident}-t" aria-describedby="{ident}-d" {box[0]}>'
        f'<title id="{ident}-t">{escape(title)}</title><desc id="{ident}-d">{escape(told)}</desc>{rest}'
    )


def write(chart: alt.TopLevelMixin, path: str) -> None:
    """A chart as a file, on white paper; the format by the name: .svg, .png, .pdf.

    Raises:
        ConfigError: another format.
    """
    import vl_convert

    drawn = _svg(chart)
    for name, stands_for in _STANDS_FOR.items():
        drawn = drawn.replace(stands_for, ON_PAPER[name])
    head, _, rest = drawn.partition(">")
    drawn = f'{head}><rect width="100%" height="100%" fill="{ON_PAPER["page"]}"/>{rest}'
    kind = Path(path).suffix
    if kind == ".svg":
        Path(path).write_text(drawn, encoding="utf-8")
    elif kind == ".png":
        Path(path).write_bytes(vl_convert.svg_to_png(drawn, scale=1.5))
    elif kind == ".pdf":
        Path(path).write_bytes(vl_convert.svg_to_pdf(drawn))
    else:
        raise ConfigError(f"{path}: pictures are svg, png or pdf")


def _svg(chart: Any) -> str:
    import vl_convert

    quiet, text = colour("quiet"), colour("text")
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
    # What is drawn is made here, and the tests draw all of it: to check it once more takes as long as drawing.
    spec = chart.to_dict(validate=False)
    drawn = vl_convert.vegalite_to_svg(spec | {"config": config})
    return _LONG.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), drawn)

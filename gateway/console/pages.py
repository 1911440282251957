"""From values to the bytes of a page, and the headers that keep a page what it is.

Guarantees that everything put into a page is escaped, that a browser runs nothing but the one
script file and loads nothing but the three files of our own, and that no page is framed or kept.
Called by the routes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from gateway.console.site_file import Site
from gateway.console.text import grouped, shown
from gateway.console.why import clock, span

_HERE: Final = Path(__file__).parent
_ASSETS: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_NOTHING_OF_THE_DEVICE: Final = ", ".join(
    f"{feature}=()"
    for feature in (
        "camera",
        "clipboard-read",
        "display-capture",
        "geolocation",
        "microphone",
        "payment",
        "usb",
    )
)


class Pages:
    """Templates and files of one site, read once."""

    def __init__(self, site: Site) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "clock": clock,
            "grouped": grouped,
            "iso": iso,
            "shown": shown,
            "span": span,
            "words": words,
        }
        self._headers = headers(site)
        self._assets = {name: (_HERE / "static" / name).read_bytes() for name in _ASSETS}

    def page(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> Response:
        """A page of a template."""
        text = self._environment.get_template(f"{template}.html").render(**context)
        return Response(
            text, status_code=status, headers=dict(self._headers), media_type="text/html"
        )

    def asset(self, name: str) -> Response | None:
        """One of our own files, or None."""
        if name not in _ASSETS:
            return None
        found = Response(self._assets[name], headers=dict(self._headers))
        found.headers["content-type"] = _ASSETS[name]
        return found

    def protected(self, response: Response) -> Response:
        """Any other answer under the same headers."""
        response.headers.update(self._headers)
        return response


def headers(site: Site) -> dict[str, str]:
    """What every answer of the pages carries; caching and sniffing are ruled out for all doors."""
    own = f"{site.origin}/console"
    policy = (
        "default-src 'none'",
        f"style-src {own}/static/console.css",
        f"script-src {own}/static/console.js",
        f"img-src {own}/static/icon.svg",
        f"connect-src {own}/approve/ {own}/review/",
        f"form-action {own}/",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    found = {
        "Content-Security-Policy": "; ".join(policy),
        "X-Frame-Options": "DENY",
        # Not `no-referrer`: with it a browser says of the origin of a form only that it is none.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": _NOTHING_OF_THE_DEVICE,
    }
    if site.is_secure:
        found["Strict-Transport-Security"] = "max-age=31536000"
    return found


def iso(at_ms: int) -> str:
    """A time as machines read it in a page."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def words(name: str) -> str:
    """A name of ours as words: `awaiting_approval` is `awaiting approval`."""
    return str(name).replace("_", " ")

"""A page as tests read it: headings, fields and their labels, links, forms."""

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

from tests.support.world import ADMIN, World, bearer

_VOID = {"meta", "link", "input", "br", "img", "hr", "rect", "path", "circle", "line"}
_FIELDS = {"input", "select", "textarea"}


class Page(HTMLParser):
    """Reads a page of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = defaultdict(list)
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.menu: list[str] = []
        self.posted: list[set[str]] = []
        """The names of the fields of each form that is posted."""
        self.unlabelled: list[str] = []
        self.foreign: list[str] = []
        """Elements and attributes that no page has: scripts and styles of its own, handlers, images, frames."""
        self.text = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        self._labels: set[str] = set()
        self._named: list[tuple[str, str]] = []
        self.feed(text)
        self.unlabelled += [tag for tag, id_ in self._named if id_ not in self._labels]

    @property
    def title(self) -> str:
        return self.texts["title"][0].strip() if self.texts["title"] else ""

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        values = {name: value or "" for name, value in attributes}
        self._check(tag, values)
        self.ids += [values["id"]] if "id" in values else []
        self.addresses += [values[name] for name in ("href", "action", "hx-get", "formaction") if name in values]
        if tag == "a" and self._is_in("nav", "aria-label", "Pages"):
            self.menu.append(values["href"])
        if tag == "form" and values.get("method") == "post":
            self.posted.append(set())
        if tag in _FIELDS:
            self._field(tag, values)
        if tag == "label" and "for" in values:
            self._labels.add(values["for"])
        self.texts[tag].append("")
        if tag == "div":
            self.handle_data(" ")
        if tag not in _VOID:
            self._open.append((tag, values))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        for tag, _ in self._open:
            self.texts[tag][-1] += data

    def _field(self, tag: str, values: dict[str, str]) -> None:
        if self._is_in("form", "method", "post"):
            self.posted[-1].add(values.get("name", ""))
        is_seen = values.get("type") not in ("hidden", "submit")
        if is_seen and not (self._is_in("label") or "aria-label" in values or "aria-labelledby" in values):
            self._named.append((f"{tag} {values.get('name')}", values.get("id", "?")))

    def _check(self, tag: str, values: dict[str, str]) -> None:
        own = tag == "script" and values.get("src", "").startswith("/static/")
        if tag in ("script", "style", "img", "object", "embed", "base") and not own:
            self.foreign.append(tag)
        self.foreign += [name for name in values if name == "style" or name.startswith("on")]

    def _is_in(self, tag: str, name: str = "", value: str = "") -> bool:
        return any(each == tag and (not name or value in values.get(name, "").split()) for each, values in self._open)


def create_token(world: World, **wanted: Any) -> str:
    response = world.client.post("/api/v1/tokens", json=wanted, headers=bearer(ADMIN))
    assert response.status_code == 201, response.text
    token: str = response.json["token"]
    return token

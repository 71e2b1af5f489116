"""The forms of a page, as a browser sends them, and what a page shows as text."""

from html.parser import HTMLParser
from typing import Any


class Form:
    """A form: where it leads, and its fields with the values that it would send. Boxes are not checked by itself."""

    def __init__(self, method: str, action: str) -> None:
        self.method, self.action = method, action
        self.fields: dict[str, Any] = {}
        self.boxes: dict[str, list[str]] = {}
        self.buttons: list[tuple[str | None, str | None]] = []


class Page(HTMLParser):
    """What a page holds: its forms, the addresses of its links, its elements and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._textarea: str | None = None
        self.feed(html)

    def form(self, action: str) -> Form:
        """The only form that leads there."""
        (found,) = (form for form in self.forms if form.action == action)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "form":
            self.forms.append(Form(given.get("method") or "get", given.get("action") or ""))
        elif tag == "a":
            self.links.append(given.get("href") or "")
        elif tag == "textarea":
            self._textarea = given["name"]
            self.forms[-1].fields[given["name"] or ""] = ""
        elif self.forms and tag == "button":
            self.forms[-1].buttons.append((given.get("name"), given.get("value")))
        elif self.forms and tag == "input" and (name := given.get("name")):
            if given.get("type") == "checkbox" or (given.get("type") == "radio" and "checked" not in given):
                self.forms[-1].boxes.setdefault(name, []).append(given.get("value") or "on")
            else:
                self.forms[-1].fields[name] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._textarea:
            # As in a browser, the first line break is not part of the text.
            self.forms[-1].fields[self._textarea] = self.forms[-1].fields[self._textarea].removeprefix("\n")
            self._textarea = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._textarea:
            self.forms[-1].fields[self._textarea] += data

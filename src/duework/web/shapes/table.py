"""The pages of shapes as routes: ours are files of this folder, others in the shape's own.

A module of pages has a `TABLE` of (path, what answers, the scope that it needs, how it is asked), as the
shell has; a path of it stands below the name of the shape. Templates of other shapes are in their folder
`pages/`, and are known as `NAME/file.html`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, ChoiceLoader, FileSystemLoader, PrefixLoader

from duework.errors import UsageError
from duework.shapes.shape import Shape
from duework.web.visits import DoorRoute, Handler

if TYPE_CHECKING:
    from duework.app import App

Row = tuple[str, Handler, str, str]


def page_table(shape: Shape) -> Sequence[Row]:
    """The rows of a shape's pages; none if it has no page."""
    ours = f"{__package__}.{shape.name}"
    if importlib.util.find_spec(ours) is not None:
        module: Any = importlib.import_module(ours)
    else:
        module = shape.module("page")
    rows: Sequence[Row] = getattr(module, "TABLE", ())
    return rows


def shape_routes(app: App, door: Callable[..., DoorRoute], own: Sequence[str]) -> list[DoorRoute]:
    """Routes for the pages of all shapes; `own` are the addresses of the shell itself."""
    made: list[DoorRoute] = []
    for shape in app.wiring.registry.shapes.values():
        rows = page_table(shape)
        if rows and any(path.split("/")[1] == shape.name for path in own):
            raise UsageError(f"the pages of shape {shape.name} would stand where ours do")
        made += [
            door(f"/{shape.name}{path}", handler, scope, (method,))
            for path, handler, scope, method in rows
        ]
    return made


def shape_links(app: App) -> Iterator[tuple[str, str]]:
    """Name and address of shapes that have a first page, for the side bar."""
    for shape in app.wiring.registry.shapes.values():
        if any(path == "" and method == "GET" for path, _, _, method in page_table(shape)):
            yield shape.name, f"/{shape.name}"


def with_templates(app: App, ours: BaseLoader) -> BaseLoader:
    """The loader of all templates: ours, and those of shapes under their names."""
    folders = {shape.name: shape.folder / "pages" for shape in app.wiring.registry.shapes.values()}
    found = {name: FileSystemLoader(path) for name, path in folders.items() if path.is_dir()}
    return ChoiceLoader([ours, PrefixLoader(found)]) if found else ours

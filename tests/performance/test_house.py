"""Figures of the package as a house: who imports what."""

from __future__ import annotations

import ast

from evals.performance.house import PACKAGE, importers, modules, rooms

TREES = {
    "house.__init__": "from house.hall import door",
    "house.hall.__init__": "from house.hall.wood import door, window",
    "house.hall.wood": "",
    "house.hall.glass": "from . import wood",
    "house.roof": "from house.hall import window as glass\nimport json",
    "house.yard": "def open():\n    from house.hall.wood import door\n    import house.roof",
}


def test_an_exported_name_is_imported_from_the_module_that_holds_it():
    found = importers({name: ast.parse(text) for name, text in TREES.items()})
    assert found == {
        "house.hall.wood": {"house.hall.glass", "house.roof", "house.yard"},
        "house.hall.glass": set(),
        "house.roof": {"house.yard"},
        "house.yard": set(),
    }


def test_the_rooms_hold_every_module_of_the_package():
    assert sum(files for files, _ in rooms().values()) == len(modules()) == len(list(PACKAGE.rglob("*.py")))

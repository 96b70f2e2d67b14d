"""Meshes: the arrays of a step as a mesh with fields, by the paths of Conduit's mesh blueprint.

The producer names its arrays and attributes by these paths (docs/insitu.md), and may be a program in C. A mesh can be
passed to PyVista (VTK) or Matplotlib."""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .channels import Step

AXES = ("x", "y", "z")
# Cells of an unstructured topology: number of points, VTK's cell type.
CELLS = {"point": (1, 1), "line": (2, 3), "tri": (3, 5), "quad": (4, 9), "tet": (4, 10), "hex": (8, 12),
         "wedge": (6, 13), "pyramid": (5, 14)}
TOPOLOGY_TYPES = ("points", "uniform", "rectilinear", "structured", "unstructured")


@dataclasses.dataclass
class Field:
    """Values at the points ("vertex") or in the cells ("element") of a mesh."""
    name: str
    association: str
    units: str
    components: list[Any]  # arrays in place, one for each component; a scalar has one

    @property
    def values(self) -> Any:
        """The values in the order of points or cells. A scalar: (count,), in place if the producer's array is
        contiguous. Otherwise a copy: (count, components)."""
        flat = [array.reshape(-1) for array in self.components]
        return flat[0] if len(flat) == 1 else np.stack(flat, axis=1)


class Mesh:
    """The mesh of a step, or of a rank's part of it, with its fields.

    topology: its name, if the step has several. LookupError: a part of the description is missing; ValueError: the
    description is inconsistent or has an unsupported type. Arrays are the producer's memory and valid as long as the
    step, as is the result of pyvista() unless it is copied."""

    def __init__(self, step: Step, topology: str | None = None, rank: int = 0):
        self._step, self._rank = step, rank
        self._names = step.names(rank)
        self._attributes = step.attributes(rank)
        self.name: str = self._select_name("topologies", topology)
        self.kind: str = self._text_attribute(f"topologies/{self.name}/type")
        named = self._attributes.get(f"topologies/{self.name}/coordset")
        self.coordset: str = str(named or self._select_name("coordsets", None))
        if self.kind not in TOPOLOGY_TYPES:
            raise self._invalid(f"topology {self.name!r} is of type {self.kind!r}: known are "
                                f"{', '.join(TOPOLOGY_TYPES)}")
        self.coordinates: list[Any] = self._coordinates()
        self.shape: tuple[int, ...] = self._shape()
        self.cells: Any = self._cells() if self.kind == "unstructured" else None
        self.fields: dict[str, Field] = {field.name: field for field in self._fields()}

    # ---- Reading the description ----

    def _invalid(self, text: str) -> ValueError:
        return ValueError(f"step {self._step.number}, rank {self._rank}: {text}")

    def _missing(self, path: str, has: str) -> LookupError:
        return LookupError(f"step {self._step.number}, rank {self._rank}: there is no {path!r} (the paths of Conduit's "
                           f"mesh blueprint); {has}")

    def _children(self, path: str) -> list[str]:
        """The names of the direct children of a path."""
        paths = [*self._names, *self._attributes]
        return list(dict.fromkeys(name[len(path) + 1:].split("/")[0] for name in paths if name.startswith(path + "/")))

    def _select_name(self, path: str, given: str | None) -> str:
        found = self._children(path)
        if given is None and len(found) == 1:
            return found[0]
        if given in found:
            return given  # type: ignore[return-value]
        if given is None and found:
            raise self._invalid(f"there are several {path}, {', '.join(found)}: choose one")
        raise self._missing(f"{path}/{given or 'NAME'}", f"it has {', '.join([*self._names, *self._attributes])}")

    def _text_attribute(self, path: str) -> str:
        if path not in self._attributes:
            raise self._missing(path, f"it has the attributes {', '.join(self._attributes)}")
        return str(self._attributes[path])

    def _number_attributes(self, path: str, names: tuple[str, ...], default: float | None) -> list[Any]:
        """The existing attributes among path/NAME for each of the names."""
        found = [self._attributes.get(f"{path}/{name}", default) for name in names]
        return [number for number in found if number is not None]

    def _component_arrays(self, path: str) -> list[Any]:
        """The array of that path, or the arrays below it."""
        if path in self._names:
            return [self._step.get(path, self._rank)]
        return [self._step.get(f"{path}/{name}", self._rank) for name in self._children(path)
                if f"{path}/{name}" in self._names]

    # ---- Points ----

    def _coordinates(self) -> list[Any]:
        """For each axis, x first: the coordinates of grid lines, or of all points."""
        path = f"coordsets/{self.coordset}"
        kind = self._text_attribute(f"{path}/type")
        if kind == "uniform":
            dims = self._number_attributes(f"{path}/dims", ("i", "j", "k"), None)
            if not dims:
                raise self._missing(f"{path}/dims/i", "a uniform coordset needs the numbers of points along i, j and k")
            origin = self._number_attributes(f"{path}/origin", AXES, 0.0)
            spacing = self._number_attributes(f"{path}/spacing", ("dx", "dy", "dz"), 1.0)
            return [start + step * np.arange(count) for start, step, count in zip(origin, spacing, dims)]
        if kind not in ("rectilinear", "explicit"):
            raise self._invalid(f"coordset {self.coordset!r} is of type {kind!r}: known are uniform, rectilinear, "
                                "explicit")
        found = [self._step.get(f"{path}/values/{axis}", self._rank).reshape(-1) for axis in AXES
                 if f"{path}/values/{axis}" in self._names]
        if not found:
            raise self._missing(f"{path}/values/x", f"it has the arrays {', '.join(self._names)}")
        if kind == "explicit" and len({len(values) for values in found}) != 1:
            raise self._invalid(f"coordset {self.coordset!r} has {', '.join(str(len(values)) for values in found)} "
                                "coordinates along its axes: each point needs one of each")
        return found

    def _has_axes(self) -> bool:
        """Whether the coordinates are those of grid lines."""
        return self.kind in ("uniform", "rectilinear")

    def _shape(self) -> tuple[int, ...]:
        if self._has_axes():
            return tuple(len(values) for values in self.coordinates)
        count = len(self.coordinates[0])
        if self.kind != "structured":
            return (count,)
        elements = self._number_attributes(f"topologies/{self.name}/elements/dims", ("i", "j", "k"), None)
        shape = tuple(int(number) + 1 for number in elements)
        if not shape or int(np.prod(shape)) != count:
            raise self._invalid(f"topology {self.name!r} has {' x '.join(map(str, elements)) or 'no'} elements "
                                f"(elements/dims/i, j, k), and its coordset {count} points")
        return shape

    @property
    def points(self) -> Any:
        """A copy of the coordinates of all points, (count, 3), with zeros along missing axes. The first dimension of
        `shape` varies fastest."""
        found = self.coordinates
        if self._has_axes():
            found = [axis.reshape(-1) for axis in np.meshgrid(*reversed(found), indexing="ij")][::-1]
        result = np.zeros((len(found[0]), 3))
        for axis, values in enumerate(found):
            result[:, axis] = values
        return result

    # ---- Cells and fields ----

    def _cells(self) -> Any:
        path = f"topologies/{self.name}/elements"
        self.cell: str = self._text_attribute(f"{path}/shape")
        if self.cell not in CELLS:
            raise self._invalid(f"topology {self.name!r} has cells of shape {self.cell!r}: known are "
                                f"{', '.join(CELLS)}")
        if f"{path}/connectivity" not in self._names:
            raise self._missing(f"{path}/connectivity", f"it has the arrays {', '.join(self._names)}")
        connectivity = self._step.get(f"{path}/connectivity", self._rank).reshape(-1)
        size = CELLS[self.cell][0]
        if len(connectivity) % size:
            raise self._invalid(f"topology {self.name!r}: {len(connectivity)} entries are not a whole number of cells "
                                f"of {size} points")
        if len(connectivity) and not 0 <= connectivity.min() <= connectivity.max() < self.shape[0]:
            raise self._invalid(f"topology {self.name!r} names points {connectivity.min()} to {connectivity.max()}, "
                                f"and its coordset has {self.shape[0]}")
        return connectivity.reshape(-1, size)

    @property
    def point_count(self) -> int:
        return int(np.prod(self.shape))

    @property
    def cell_count(self) -> int:
        if self.kind == "points":
            return self.point_count
        if self.cells is not None:
            return len(self.cells)
        return int(np.prod([max(count - 1, 1) for count in self.shape]))

    def _fields(self) -> list[Field]:
        found = []
        for name in self._children("fields"):
            path = f"fields/{name}"
            if self._attributes.get(f"{path}/topology", self.name) != self.name:
                continue
            association = self._text_attribute(f"{path}/association")
            components = self._component_arrays(f"{path}/values")
            if association not in ("vertex", "element"):
                raise self._invalid(f"field {name!r} is associated with {association!r}: known are vertex and element")
            if not components:
                raise self._missing(f"{path}/values", f"it has the arrays {', '.join(self._names)}")
            count = self.point_count if association == "vertex" else self.cell_count
            for array in components:
                if array.size != count:
                    raise self._invalid(f"field {name!r} has {array.size} values for {count} "
                                        f"{'points' if association == 'vertex' else 'cells'}")
            first = f"{path}/values" if f"{path}/values" in self._names else \
                f"{path}/values/{self._children(f'{path}/values')[0]}"
            found.append(Field(name, association, self._step.info(first, self._rank)["units"], components))
        return found

    # ---- Visualization ----

    def pyvista(self, copy: bool = False) -> Any:
        """A data set of PyVista with all fields. Scalars and coordinates of grid lines are in place, and valid as long
        as the step, unless they are copied."""
        import pyvista
        data = self._pyvista(pyvista)
        for field in self.fields.values():
            to = data.point_data if field.association == "vertex" else data.cell_data
            to.set_array(field.values, field.name, deep_copy=copy)
        return data

    def _pyvista(self, pyvista: Any) -> Any:
        if self.kind == "points":
            return pyvista.PolyData(self.points)
        if self.cells is not None:
            return pyvista.UnstructuredGrid({CELLS[self.cell][1]: self.cells}, self.points)
        dimensions = (*self.shape, 1, 1)[:3]
        if self.kind == "structured":
            grid = pyvista.StructuredGrid()
            grid.points = self.points
            grid.dimensions = dimensions
            return grid
        return pyvista.RectilinearGrid(*[np.array(values, float) for values in self.coordinates])

    def plot(self, axes: Any, field: str, **options: Any) -> Any:
        """Draw a scalar field of a two-dimensional mesh into Matplotlib's axes. Options are passed to pcolormesh, or
        for triangles and quadrilaterals to tripcolor. Return its result, for a colour bar."""
        if field not in self.fields:
            raise LookupError(f"there is no field {field!r}: the mesh has {', '.join(self.fields)}")
        shown = self.fields[field]
        if len(self.coordinates) != 2 or len(shown.components) != 1:
            raise ValueError(f"field {field!r} has {len(shown.components)} components in {len(self.coordinates)} "
                             "dimensions: plot() needs a scalar in 2; use pyvista() for others")
        x, y = self.coordinates
        if self.cells is not None:
            return self._plot_triangles(axes, x, y, shown, options)
        if self.kind == "points":
            return axes.scatter(x, y, c=shown.values, **options)
        shape = self.shape[::-1]
        if not self._has_axes():
            x, y = x.reshape(shape), y.reshape(shape)
        if shown.association == "element":
            return axes.pcolormesh(x, y, shown.values.reshape([count - 1 for count in shape]), **options)
        return axes.pcolormesh(x, y, shown.values.reshape(shape), **{"shading": "gouraud", **options})

    def _plot_triangles(self, axes: Any, x: Any, y: Any, shown: Field, options: dict[str, Any]) -> Any:
        if self.cell not in ("tri", "quad"):
            raise ValueError(f"cells of shape {self.cell!r} cannot be plotted: use pyvista()")
        triangles, values = self.cells, shown.values
        if self.cell == "quad":
            triangles = np.concatenate([self.cells[:, [0, 1, 2]], self.cells[:, [0, 2, 3]]])
            values = np.concatenate([values, values]) if shown.association == "element" else values
        if shown.association == "element":
            return axes.tripcolor(x, y, triangles, facecolors=values, **options)
        return axes.tripcolor(x, y, values, triangles=triangles, **{"shading": "gouraud", **options})

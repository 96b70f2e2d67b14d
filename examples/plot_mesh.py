"""Pictures of a running simulation, which need not be a program in Python: any that names its arrays by the paths of
Conduit's mesh blueprint (examples/plate.c).

    onespace run --on-failure kill ./plate 200 : python3 plot_mesh.py DIRECTORY [CHANNEL [FIELD [EVERY]]]

A script of this kind is what Catalyst runs within a simulation. Here it is a task, with its own libraries: it reads the
fields in place, and the simulation waits while a picture is drawn from its memory, of every EVERYth step."""
import pathlib
import sys

import matplotlib

import onespace

matplotlib.use("agg")
import matplotlib.pyplot as plt


def main(directory, channel="plate", field="temperature", every="50"):
    with onespace.Consumer(channel, every=True, timeout=60) as steps:
        for step in steps:
            if step.number % int(every):
                continue
            mesh = onespace.Mesh(step)
            shown = mesh.fields[field]
            figure, axes = plt.subplots()
            figure.colorbar(mesh.plot(axes, field, cmap="inferno"), label=shown.units)
            axes.set_title(f"{field}, step {step.number}")
            figure.savefig(pathlib.Path(directory) / f"{field}-{step.number:06}.png")
            plt.close(figure)
            print(f"step {step.number}: {field} of {shown.values.min():.3g} to {shown.values.max():.3g} {shown.units}")
            # For three dimensions, with PyVista: mesh.pyvista().contour(10, scalars=field).save("contour.vtp")


main(*sys.argv[1:])

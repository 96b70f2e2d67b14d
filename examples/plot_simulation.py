"""Heat that spreads over a plate, plotted while it is computed.

    onespace run python3 plot_simulation.py [STEPS [DIRECTORY]]

The simulation starts this script a second time as a task, which plots. The task reads the field in place: nothing is
copied, and only the pictures are written to files. It always takes the newest step, so the simulation waits only while
a picture is drawn from its field."""
import pathlib
import sys

import numpy as np

import onespace


def simulate(steps):
    field = np.zeros((200, 300))
    with onespace.Producer("heat", consumers=1) as channel:
        for number in range(1, steps + 1):
            with channel.step(number, timeout=60) as step:
                field[80:120, 100:140] = 100  # the burner
                for _ in range(20):
                    inner = field[1:-1, 1:-1]
                    inner += 0.2 * (field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner)
                step.put("temperature", field, units="degC")
                step.attribute("time", number * 0.5)


def plot(directory):
    import matplotlib
    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots()
    picture = None
    with onespace.Consumer("heat", timeout=60) as channel:
        for step in channel:
            field = step["temperature"]
            picture = picture or axes.imshow(field, vmin=0, vmax=100, cmap="inferno")
            picture.set_data(field)
            axes.set_title(f"{step.attributes()['time']:.1f} s, mean {field.mean():.2f} "
                           f"{step.info('temperature')['units']}")
            figure.savefig(directory / f"heat-{step.number:04}.png")
            print(f"step {step.number}: mean {field.mean():.3f}, {step.passed} steps passed over")


if __name__ == "__main__":
    if sys.argv[1:2] == ["plot"]:
        plot(pathlib.Path(sys.argv[2]))
    else:
        steps, directory = [*sys.argv[1:], *["20", "."][len(sys.argv) - 1:]]
        with onespace.spawn_python(__file__, "plot", directory) as task:
            simulate(int(steps))
        sys.exit(task.returncode)

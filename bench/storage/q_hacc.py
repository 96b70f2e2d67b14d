"""Checkpoint and restart of HACC's I/O kernel by a window on storage, beside MPI I/O, independent and collective, with
several sets of hints (Figure 11). In all of them the data is on the device at the end."""
import statistics

import jobs
import onespace_bench as ob
import onespace_mpi

QUESTION = "How fast are checkpoint and restart by a window on storage, beside MPI I/O?"
FIGURE = "Figure 11"
CLAIM = "On a local disk MPI I/O is 2 to 4 % faster; on Lustre windows on storage are 32 % faster."
SETTINGS = {"particles": ("200K", "8M", "of all ranks"), "ranks": ("2", "2", "")}
BOUNDS = {"fast": 0.9, "disk": 1.0}
MODES = {"independent": ["-m", "independent"],
         "independent-no-sieving": ["-m", "independent", "-H", "romio_ds_write=disable", "-H", "romio_ds_read=disable"],
         "collective": ["-m", "collective"],
         "collective-64M": ["-m", "collective", "-H", "romio_cb_write=enable", "-H", "romio_cb_read=enable", "-H",
                            "cb_buffer_size=67108864"]}
WINDOWS = {"mmap": ("mmap", []), "storage": ("storage", []),
           "storage-once": ("storage", ["-H", "access_style=read_once,write_once"])}
HINTED = "storage-once"  # held against MPI I/O with its best hints
PARTICLE, HEADER = 38, 24 << 20


def bytes_needed(settings):
    # XFS needs as much room again if a file's space is already allocated.
    return 3 * max(settings.numbers("particles")) * PARTICLE + HEADER + (64 << 20)


def measure(context, result):
    settings = context.settings

    def one_mpi(mpi):
        program = jobs.Program("hacc", mpi, context.work, context.args)
        for place in context.places.values():
            def run(kind, mode, way, place=place):
                found = {}
                for particles in settings.numbers("particles"):
                    text = program.run(settings.number("ranks"), kind, [*mode, "-n", particles, place.directory / "p"],
                                       way=way)
                    place.clear()
                    found.update(jobs.values(text))
                return found
            variants = {(way, name): lambda mode=mode, way=way: run("memory", mode, way)
                        for way in context.ways for name, mode in MODES.items()}
            variants.update({(way, name): lambda kind=kind, mode=mode, way=way: run(kind, mode, way)
                             for way in context.ways for name, (kind, mode) in WINDOWS.items()
                             if kind in context.kinds})
            size = sum(settings.numbers("particles")) * PARTICLE
            variants["write rate"] = lambda place=place, size=size: {("write-rate", size): place.write_rate(size)}
            samples = ob.alternate(variants, context.repeats)
            rates = samples.pop("write rate")
            for (way, name), found in samples.items():
                jobs.add_all(result, f"{mpi.name}/{way}/{place.name}/{name}", found, {})
            jobs.add_all(result, f"{mpi.name}/{place.name}", {key: [size / rate for rate in one]
                                                              for key, one in rates.items()}, {}, limit=True)
    onespace_mpi.each_mpi(context.args, result, one_mpi)


def groups(result):
    """{(mpi, way, place): {quantity: {variant: series}}}"""
    return jobs.grouped(result, lambda variant, quantity: (quantity, variant))


def best_mode(variants, x):
    return min((name for name in MODES if name in variants), key=lambda name: statistics.median(variants[name].at(x)))


def print_tables(result):
    for (mpi, way, place), quantities in groups(result).items():
        limit = result.find(f"{mpi}/{place}/write-rate")
        rate = [limit.x[0] / one for one in limit.samples[0]]
        for quantity, variants in quantities.items():
            for x in next(iter(variants.values())).x:
                best = best_mode(variants, x)
                print(f"\n{quantity} of {x} particles ({x * PARTICLE / 2**20:.0f} MiB), {mpi} "
                      f"({result.versions[mpi]}), "
                      f"{way}, {place}, which writes {jobs.rate_text(rate)}: milliseconds, median (quartiles)")
                ob.table(["", "time", f"/ {best} [95 %]"],
                         [[name, ob.spread_text(one.at(x), 1e3),
                           jobs.pair_text(jobs.pairs(one.at(x), variants[best].at(x)))]
                          for name, one in variants.items()])


def check_targets(result, targets):
    for (mpi, way, place), quantities in groups(result).items():
        for quantity, variants in quantities.items():
            for x in variants[HINTED].x if HINTED in variants else []:
                best = best_mode(variants, x)
                jobs.add_target(targets, f"{mpi} {way} {place} {quantity} of {x}: {HINTED}, times {best}",
                                jobs.pairs(variants[HINTED].at(x), variants[best].at(x)), BOUNDS[place])


def plot(figure_of, result):
    """Ratios to the best mode of MPI I/O."""
    found = groups(result)
    quantities = list(next(iter(found.values())))
    figure, axes = figure_of(len(found), len(quantities), result)
    for row, ((mpi, way, place), by_quantity) in enumerate(found.items()):
        for column, quantity in enumerate(quantities):
            variants = by_quantity[quantity]
            x = next(iter(variants.values())).x[-1]
            best = best_mode(variants, x)
            names = [name for name in variants if name != best]
            axes[row][column].ratios([name.replace("-", "\n", 1) for name in names],
                                     [jobs.pairs(variants[name].at(x), variants[best].at(x)) for name in names],
                                     label=f"{best}, the fastest")
            axes[row][column].finish(f"{quantity} of {x} particles, {mpi}, {way}, {place}", "",
                                     "time, times MPI I/O's best", linear=True)
    return figure

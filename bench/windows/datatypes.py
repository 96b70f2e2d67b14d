"""bench/windows/datatypes.py: one-sided calls with derived datatypes, in windows of MPI_Win_allocate: the layer's in
tasks, against the MPI library's own in processes."""
import pathlib

import onespace_bench as ob
import onespace_mpi

HERE = pathlib.Path(__file__).resolve().parent
QUESTION = "What do one-sided calls with derived datatypes cost, when ranks are tasks of one space?"
CALLS = ["put", "get", "accumulate", "get_accumulate"]
SIDES = ["target", "origin", "both", "fresh"]
QUICK_TYPES = [0, 1, 3, 5, 8, 14, 17, 18]
VARIANTS = ["processes", "tasks"]


def names_of(text):
    return {int(line.split(" ", 1)[0]): line.split(" ", 1)[1] for line in text.splitlines()}


def measure(mpi, place, args, result):
    program = place.compile(HERE / "datatypes.c", f"datatypes-{mpi.name}", mpi.compiler, late=mpi.late, env=mpi.env)
    types = QUICK_TYPES if args.quick else sorted(names_of(place.run([program, "names"], env=mpi.env)))

    def run(front):
        command = mpi.command(2, [*front, program, "-n", args.times, *types], bind=len(ob.cpus()) > 1)
        text = place.run(command, env=mpi.env, timeout=600)
        return {key: values[0] for key, values in ob.parse_lines(text).items()}
    samples = ob.alternate({"processes": lambda: run([]),
                            "tasks": lambda: run([ob.onespace_command(), "run"])}, args.repeats)
    for variant in VARIANTS:
        for call in CALLS:
            for side in SIDES:
                result.add(f"{mpi.name}/{call}-{side}/{variant}", "s",
                           {x: values for (which, x), values in samples[variant].items()
                            if which == f"{call}-{side}"})
    return names_of(place.run([program, "names"], env=mpi.env))


def pairs(result, mpi, call):
    """(side, processes, tasks)"""
    return [(side, *(result.find(f"{mpi}/{call}-{side}/{variant}") for variant in VARIANTS)) for side in SIDES]


def mpis_of(result):
    return list(dict.fromkeys(series.name.split("/")[0] for series in result.series))


def print_tables(result, names):
    for mpi in mpis_of(result):
        for call in CALLS:
            print(f"\n{call}, {mpi} ({result.versions[mpi]}), by where the type is: microseconds of processes, and how "
                  "many times faster tasks are (quartiles)")
            rows = []
            for x in result.find(f"{mpi}/{call}-target/tasks").x:
                row = [names[x]]
                for _, processes, tasks in pairs(result, mpi, call):
                    row += [ob.number(ob.Spread.of(processes.at(x)).median * 1e6),
                            ob.ratio_text(ob.ratio(processes.at(x), tasks.at(x)))]
                rows.append(row)
            ob.table(["type", *[word for side in SIDES for word in (side, "ratio")]], rows)


def check_targets(result, targets, names):
    for mpi in mpis_of(result):
        for call in CALLS:
            for side, processes, tasks in pairs(result, mpi, call):
                for x in tasks.x:
                    targets.add(f"{mpi} {call}, {names[x]}, {side}: time, times that of processes",
                                ob.ratio(tasks.at(x), processes.at(x)).median, 1.0, at_least=False)


def answer(args):
    """Measures, prints and writes. The exit status."""
    result = ob.Result(QUESTION, "Section 7.1", "Tasks access the memory of others by loads and stores.")
    names = {}
    with ob.Workplace() as place:
        onespace_mpi.each_mpi(args, result, lambda mpi: names.update(measure(mpi, place, args, result)))
    return ob.finish(result, "windows-datatypes", args, lambda found: print_tables(found, names),
                     lambda found, targets: check_targets(found, targets, names))

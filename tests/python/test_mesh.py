"""Meshes by the paths of Conduit's mesh blueprint: of producers in C and in Python, for Matplotlib and PyVista."""
import subprocess

import pytest

from jobs import BUILD, ROOT, RUN

# A producer of one step, and what each kind of mesh is made of: two cells side by side, each 1 x 2.
PRODUCE = """
def produce(arrays, **attributes):
    with onespace.Producer("flow", consumers=1) as channel, channel.step(7, timeout=180) as step:
        for name, array in arrays.items():
            step.put(name, array, units="K" if "fields" in name else "")
        for name, value in attributes.items():
            step.attribute(name.replace("_", "/"), value)

POINTS = {"coordsets/coords/values/x": np.array([0.0, 1, 2, 0, 1, 2]),
          "coordsets/coords/values/y": np.array([0.0, 0, 0, 2, 2, 2])}
FIELDS = {"fields/t/values": np.arange(6.0), "fields/c/values": np.array([10.0, 11.0])}
ASSOCIATIONS = {"fields_t_association": "vertex", "fields_c_association": "element"}
EXPLICIT = {"coordsets_coords_type": "explicit", **ASSOCIATIONS}
UNIFORM = dict(coordsets_coords_type="uniform", coordsets_coords_dims_i=3, coordsets_coords_dims_j=2,
               coordsets_coords_spacing_dy=2.0, topologies_mesh_type="uniform", **ASSOCIATIONS)
QUADS = dict(topologies_mesh_type="unstructured", topologies_mesh_elements_shape="quad", **EXPLICIT)
CELLS = {"topologies/mesh/elements/connectivity": np.array([0, 1, 4, 3, 1, 2, 5, 4], np.int32)}

def mesh_of(arrays, attributes, use):
    '''Calls use(mesh) while the step of such a producer, a task, is held.'''
    import pickle
    task = start("task", pickle.dumps((arrays, attributes)).hex())
    with onespace.Consumer("flow", timeout=180) as channel:
        for step in channel:
            use(step)
    assert task.wait(180) == 0
"""
TASK = "import pickle; arrays, attributes = pickle.loads(bytes.fromhex(sys.argv[2])); produce(arrays, **attributes)"

KINDS = {
    "uniform": "FIELDS, UNIFORM",
    "rectilinear": """{**FIELDS, "coordsets/coords/values/x": np.arange(3.0),
         "coordsets/coords/values/y": np.array([0, 2.0])},
        dict(coordsets_coords_type="rectilinear", topologies_mesh_type="rectilinear", **ASSOCIATIONS)""",
    "structured": """{**FIELDS, **POINTS},
        dict(topologies_mesh_type="structured", topologies_mesh_elements_dims_i=2, topologies_mesh_elements_dims_j=1,
             **EXPLICIT)""",
    "unstructured": "{**FIELDS, **POINTS, **CELLS}, QUADS",
}


@pytest.fixture
def mesh(play):
    play.common = PRODUCE
    return lambda code, **options: play(root=code, task=TASK, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_points_cells_and_fields_are_those_of_the_producer(mesh, kind):
    mesh(f"""
        def use(step):
            mesh = onespace.Mesh(step)
            assert (mesh.kind, mesh.name, mesh.coordset) == ({kind!r}, "mesh", "coords")
            assert mesh.points.tolist() == [[x, y, 0] for y in (0, 2) for x in (0, 1, 2)], mesh.points
            assert (mesh.point_count, mesh.cell_count) == (6, 2)
            assert mesh.fields["t"].values.tolist() == [0, 1, 2, 3, 4, 5] and mesh.fields["t"].units == "K"
            assert mesh.fields["c"].values.tolist() == [10, 11] and mesh.fields["c"].association == "element"
            assert mesh.fields["t"].values.ctypes.data == step["fields/t/values"].ctypes.data  # in place
        mesh_of({KINDS[kind]}, use)
        """)


def kinds_in_python():
    """KINDS as the text of a dictionary: one program for all kinds, because it imports large packages."""
    return "{" + ", ".join(f"{kind!r}: ({text})" for kind, text in KINDS.items()) + "}"


@pytest.mark.long
def test_matplotlib_draws_fields(mesh, interpreter, needs_modules):
    needs_modules(interpreter, "matplotlib")
    mesh(f"""
        import matplotlib
        matplotlib.use("agg")
        import matplotlib.pyplot as plt
        for kind, (arrays, attributes) in {kinds_in_python()}.items():
            def use(step):
                mesh = onespace.Mesh(step)
                for field, least, most in (("t", 0, 5), ("c", 10, 11)):
                    figure, axes = plt.subplots()
                    drawn = mesh.plot(axes, field)
                    assert (drawn.get_array().min(), drawn.get_array().max()) == (least, most), (kind, field)
                    figure.savefig("field.png")  # it can be drawn
                with raises(LookupError, "'u'", "t, c"):
                    mesh.plot(axes, "u")
            mesh_of(arrays, attributes, use)
        """)


def test_fields_of_several_components_and_of_other_topologies(mesh):
    mesh("""
        def use(step):
            with raises(ValueError, "several topologies", "mesh, other"):
                onespace.Mesh(step)
            mesh, other = onespace.Mesh(step, "mesh"), onespace.Mesh(step, "other")
            assert list(mesh.fields) == ["u"] and list(other.fields) == ["w"]
            assert mesh.fields["u"].values.tolist() == [[0, 5], [1, 4], [2, 3], [3, 2], [4, 1], [5, 0]]
            assert other.kind == "points" and other.cell_count == 6
        mesh_of({**POINTS, **CELLS, "fields/u/values/u": np.arange(6.0),
                 "fields/u/values/v": np.arange(6.0)[::-1].copy(), "fields/w/values": np.arange(6.0)},
                dict(coordsets_coords_type="explicit", topologies_mesh_type="unstructured",
                     topologies_mesh_elements_shape="quad", topologies_other_type="points",
                     fields_u_association="vertex", fields_u_topology="mesh", fields_w_association="vertex",
                     fields_w_topology="other"), use)
        """)


def test_missing_or_inconsistent_description_is_reported(mesh):
    mesh("""
        def try_one(kind, *words, less=(), arrays={}, **attributes):
            def use(step):
                with raises(kind, "step 7", *words):
                    onespace.Mesh(step)
            made = {name: value for name, value in {**QUADS, **attributes}.items() if name not in less}
            all_arrays = {**FIELDS, **POINTS, **CELLS, **arrays}
            mesh_of({name: value for name, value in all_arrays.items() if name not in less}, made, use)
        try_one(LookupError, "topologies/NAME", less=["topologies_mesh_type", "topologies_mesh_elements_shape",
                                                      "topologies/mesh/elements/connectivity"])
        try_one(LookupError, "coordsets/coords/type", less=["coordsets_coords_type"])
        try_one(LookupError, "connectivity", less=["topologies/mesh/elements/connectivity"])
        try_one(LookupError, "fields/t/association", less=["fields_t_association"])
        try_one(ValueError, "'spherical'", coordsets_coords_type="spherical")
        try_one(ValueError, "'polyhedral'", topologies_mesh_elements_shape="polyhedral")
        try_one(ValueError, "'edge'", fields_t_association="edge")
        try_one(ValueError, "5 values for 6 points", arrays={"fields/t/values": np.zeros(5)})
        at = "topologies/mesh/elements/connectivity"
        try_one(ValueError, "names points 0 to 6", arrays={at: np.array([0, 1, 2, 6])})
        try_one(ValueError, "not a whole number", arrays={at: np.array([0, 1, 2])})
        try_one(ValueError, "6, 5 coordinates", arrays={"coordsets/coords/values/y": np.zeros(5)})
        """)


@pytest.fixture
def with_pyvista():
    """An interpreter of the same version as the package's, with PyVista."""
    found = ROOT / ".venv" / "insitu" / "bin" / "python"
    has = [found, "-c", "import pyvista"]
    if not found.exists() or subprocess.run(has, timeout=180, capture_output=True).returncode != 0:
        pytest.skip("no .venv/insitu with PyVista (scripts/setup insitu)")
    return str(found)


def test_pyvista_gets_meshes_in_place(mesh, play, with_pyvista):
    play.interpreter = with_pyvista
    mesh(f"""
        import pyvista
        for kind, (arrays, attributes) in {kinds_in_python()}.items():
            def use(step):
                grid = onespace.Mesh(step).pyvista()
                assert (grid.n_points, grid.n_cells, grid.bounds[:4]) == (6, 2, (0, 2, 0, 2)), (kind, grid)
                assert abs(grid.compute_cell_sizes()["Area"] - 2).max() < 1e-12, kind
                assert grid.point_data["t"].tolist() == [0, 1, 2, 3, 4, 5] and grid.cell_data["c"].tolist() == [10, 11]
                at = np.asarray(grid.point_data["t"]).__array_interface__["data"][0]
                assert at == step["fields/t/values"].ctypes.data, kind
                kept = onespace.Mesh(step).pyvista(copy=True)
                assert np.asarray(kept.point_data["t"]).__array_interface__["data"][0] != at
                kept.save("mesh" + (".vtu" if kind == "unstructured" else ".vts" if kind == "structured" else ".vtr"))
            mesh_of(arrays, attributes, use)
        """)


# ---- The examples, whose producer is a program in C ----

@pytest.fixture
def plate(tmp_path, patient):
    program = tmp_path / "plate"
    subprocess.run(["cc", patient(ROOT / "examples/plate.c"), "-o", program, f"-I{ROOT / 'include'}",
                    f"-L{BUILD / 'lib'}", "-lonespace", f"-Wl,-rpath,{BUILD / 'lib'}"], check=True, timeout=180)
    return program


def test_example_plots_a_program_in_c(job, play, interpreter, plate, tmp_path, needs_modules, patient):
    needs_modules(interpreter, "matplotlib")
    result = job.run([*RUN, plate, "40", ":", interpreter, patient(ROOT / "examples/plot_mesh.py"), tmp_path, "plate",
                      "temperature", "20"], env=play.env)
    assert result.code == 0 and "40 steps, the power is 1 at the end" in result.out, str(result)
    assert "step 20: temperature of 0 to " in result.out and "step 40: temperature" in result.out, str(result)
    pictures = sorted(tmp_path.glob("*.png"))
    assert [picture.name for picture in pictures] == ["temperature-000020.png", "temperature-000040.png"]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_example_controls_a_program_in_c(job, play, interpreter, plate, patient):
    """The simulation ends early, with the requested mean and another power than at its start."""
    control = patient(ROOT / "examples/control_plate.py")
    result = job.run([*RUN, plate, "1000000", ":", interpreter, control, "20"], env=play.env)
    assert result.code == 0, str(result)
    word = next(line for line in result.lines if line.startswith("step ")).split()
    assert abs(float(word[2]) - 20) < 0.2, str(result)
    assert 1 < int(word[1].rstrip(":")) < 1000 and "the power is 0 at the end" in result.out, str(result)


def test_simulation_outlives_its_controller(job, play, interpreter, plate, tmp_path):
    """The channel of a killed controller ends; the simulation continues with its last parameters."""
    script = tmp_path / "die.py"
    script.write_text("import onespace, os, signal\n"
                      "with onespace.Producer('plate-control', consumers=1) as control, "
                      "onespace.Consumer('plate', every=True, timeout=180) as plate:  # which waits for it\n"
                      "    with control.step(1, timeout=180) as step:\n"
                      "        step.attribute('power', 3.0)\n"
                      "    for _ in range(3):  # the last of them has begun since\n"
                      "        plate.take(180).release()\n"
                      "    os.kill(os.getpid(), signal.SIGKILL)\n")
    result = job.run([*RUN, plate, "30000", ":", interpreter, script], env=play.env)
    assert result.code == 128 + 9 and "30000 steps, the power is 3 at the end" in result.out, str(result)


@pytest.mark.parametrize("name", ["plot_mesh", "control_plate"])
def test_example_is_short(name):
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 60

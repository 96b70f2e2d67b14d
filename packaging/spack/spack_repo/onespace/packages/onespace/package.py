# Spack 1.0 and later: `spack repo add CHECKOUT/packaging/spack/spack_repo/onespace`, then `spack install onespace
# ^mpich` (or `^openmpi`). The sources are those of the checkout that the recipe lies in: its committed state.
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *

CHECKOUT = pathlib.Path(__file__).resolve().parents[6]


class Onespace(CMakePackage):
    """Runs unmodified programs as tasks of one address space: MPI ranks of a node copy large messages once, in user
    space, and pointers of one task are valid in all others."""

    git = CHECKOUT.as_uri()

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("mpi", default=True, description="Build the layer for windows and collective operations of this MPI")
    variant("python", default=False, description="Build the Python package")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2:")
    # Its headers alone: the layer names no MPI library, and serves every one of the same binary interface.
    depends_on("mpi", when="+mpi")
    with when("+python"):
        extends("python@3.9:")
        depends_on("py-nanobind@2:", type="build")
        depends_on("py-numpy@1.20:", type="run")

    requires("target=x86_64:", msg="onespace supports x86-64 so far")
    requires("platform=linux", msg="onespace uses Linux's own calls")

    generator("ninja")

    def cmake_args(self):
        directory = self.spec["mpi"].prefix.include if "+mpi" in self.spec else "/none"
        is_openmpi = self.spec.satisfies("^[virtuals=mpi] openmpi")
        args = [
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
            self.define("ONESPACE_OPENMPI_INCLUDE", directory if is_openmpi else "/none"),
            self.define("ONESPACE_MPICH_INCLUDE", "/none" if is_openmpi else directory),
        ]
        if "+python" in self.spec:
            args += [
                self.define("ONESPACE_PYTHON", self.spec["python"].command.path),
                self.define("ONESPACE_PYTHON_DIR", python_platlib),
            ]
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        """Two tasks of one space."""
        Executable(self.prefix.bin.onespace)("run", "-n", "2", "/bin/echo", "installed")

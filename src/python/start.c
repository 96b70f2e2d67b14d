/* src/python/start.c: the start program of Python interpreters that are non-PIE.
 *
 *   onespace/python LIBRARY PYTHON [ARGUMENT...]
 *
 * runs the interpreter in LIBRARY (libpython3.11.so.1.0) as PYTHON (/usr/bin/python3.11, or
 * .venv/bin/python) would run. From that name the interpreter finds its prefix and, by a pyvenv.cfg
 * beside it, its virtual environment. It is also the value of sys.executable, so that a script that
 * runs sys.executable runs what the user named. (src/elf/python.c makes this command line.) */
#include <dlfcn.h>
#include <stdio.h>

typedef int python_main(int argc, char **argv);

int main(int argc, char **argv)
{
    enum { CANNOT_BE_A_TASK = 126, PROGRAM = 2 };
    if (argc <= PROGRAM) {
        fprintf(stderr, "onespace/python: started without a Python: give the Python to onespace "
                        "run, which starts this program itself\n");
        return CANNOT_BE_A_TASK;
    }
    /* RTLD_GLOBAL: extension modules find the interpreter's functions in the global scope. */
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    python_main *run = library ? (python_main *)dlsym(library, "Py_BytesMain") : NULL;
    if (run)
        return run(argc - PROGRAM, argv + PROGRAM);
    fprintf(stderr,
            "%s: cannot be run from its library %s: %s: use Python 3.8 or later, or one that is "
            "built position independent\n",
            argv[PROGRAM], argv[1], dlerror());
    return CANNOT_BE_A_TASK;
}

/* A position-independent program that is Python: distributions whose python3 is not have the
 * library. */
int Py_BytesMain(int argc, char **argv);

int main(int argc, char **argv)
{
    return Py_BytesMain(argc, argv);
}

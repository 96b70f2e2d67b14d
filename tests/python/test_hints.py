"""Type hints and docstrings: all public names have both, and _core.pyi lists what the extension defines."""
import ast

from jobs import ROOT

HINTS = ROOT / "python" / "onespace" / "_core.pyi"
PUBLIC = r"""
import inspect, onespace
for name in onespace.__all__:
    thing = getattr(onespace, name)
    if isinstance(thing, int):
        continue
    assert thing.__doc__, name
    members = [thing] if not inspect.isclass(thing) else [
        value for key, value in vars(thing).items()
        if inspect.isfunction(value) and (key == "__init__" or key[0] != "_")]
    for member in members:
        hints = set(member.__annotations__)
        wanted = set(inspect.signature(member).parameters) - {"self", "options", "args"}
        assert wanted <= hints, (name, member, wanted - hints)
        assert "return" in hints or member.__name__ == "__init__", (name, member)
        assert member.__doc__ or member.__name__ == "__init__", (name, member)
"""
MEMBERS = r"""
import onespace._core as core
print(*sorted(name for name in vars(core) if not name.startswith("__")))
for name, value in sorted(vars(core).items()):
    if isinstance(value, type):
        print(name, *sorted(key for key in vars(value) if not key.startswith("__")))
"""


def run(job, play, interpreter, code):
    result = job.run([interpreter, "-c", code], env=play.env)
    assert result.code == 0, str(result)
    return result.out


def test_public_names_have_hints_and_docstrings(job, play, interpreter):
    run(job, play, interpreter, PUBLIC)


def test_stub_lists_the_definitions_of_the_extension(job, play, interpreter):
    def named(body):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("__"):
                yield node.name
            elif isinstance(node, ast.AnnAssign):
                yield node.target.id
    tree = ast.parse(HINTS.read_text())
    lines = [" ".join(sorted(named(tree.body)))]
    lines += sorted(" ".join([node.name, *sorted(named(node.body))]) for node in tree.body
                    if isinstance(node, ast.ClassDef))
    assert run(job, play, interpreter, MEMBERS).splitlines() == lines

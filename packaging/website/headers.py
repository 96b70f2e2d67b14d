"""packaging/website/headers.py: pages of the public headers, from Doxygen's XML: each header with its comment, its
sections, and each declaration with the comment above it."""
import dataclasses
import re
import xml.etree.ElementTree as tree

SECTION = re.compile(r"^/\* -{3,} (.*?) -{3,} \*/|^// -{3,} (.*?) -{3,}$")
NAME = re.compile(r"\b(?:onespace|pip|xpmem)_\w+")
CLOSE = 3  # lines: a declaration without a comment this close below another shares that one's


@dataclasses.dataclass
class Entry:
    line: int
    end: int
    name: str
    kind: str
    code: str
    text: str
    members: list


class Headers:
    """All of Doxygen's XML in one directory; headers lie under `include`."""

    def __init__(self, xml, include):
        self.include = include
        self.names = {}  # of what is declared: its header
        self.compounds = [tree.parse(path).getroot().find("compounddef")
                          for path in sorted(xml.glob("*.xml")) if path.name not in ("index.xml", "Doxyfile.xml")]
        self.files = {}
        for compound in self.compounds:
            if compound.get("kind") == "file":
                self.files[self.header_of(compound)] = compound
        self.entries = {name: [] for name in self.files}
        for compound in self.compounds:
            self.collect(compound)

    def header_of(self, part):
        place = part.find("location")
        name = place.get("bodyfile") or place.get("file") if place is not None else ""
        return name.split("include/", 1)[-1]

    def source(self, header):
        return (self.include / header).read_text(encoding="utf-8").split("\n")

    def collect(self, compound):
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if "::detail" in name or kind not in ("file", "struct", "class", "union", "namespace"):
            return
        if kind in ("struct", "class", "union"):
            if self.header_of(compound) in self.entries:
                self.add(compound, name.rsplit("::", 1)[-1], kind, compound)
            return
        for member in compound.iter("memberdef"):
            if self.header_of(member) in self.entries and member.get("prot") == "public":
                self.add(member, member.findtext("name"), member.get("kind"), None)

    def add(self, part, name, kind, compound):
        header, place = self.header_of(part), part.find("location")
        line = int(place.get("line"))
        start, end = int(place.get("bodystart") or line), int(place.get("bodyend") or line)
        end = max(end, start)
        if kind == "define" and (name.endswith(("_H", "_HPP", "_API", "_CHECK")) or name.startswith("_")):
            return
        if kind == "variable" or name.startswith("@"):
            return
        members = []
        if kind == "function":
            template = part.find("templateparamlist")
            head = "template <" + ", ".join(words_of(one) for one in template) + ">\n" if template is not None else ""
            code = f"{head}{part.findtext('definition')}{part.findtext('argsstring')};".replace("onespace::sync::", "")
        elif header.endswith(".hpp") and compound is not None:
            code = f"{kind} {name};"
            members = [member for section in compound.iter("sectiondef") if section.get("kind") == "public-func"
                       for member in section.iter("memberdef")]
        else:
            code = "\n".join(self.source(header)[start - 1:max(end, start)])
            code = re.sub(r"\A\s+", "", code)
        self.names[name] = header
        self.entries[header].append(Entry(line, end, name, kind, code, self.text_of(part), members))

    # ---- Text ----

    def text_of(self, part):
        return "\n\n".join(filter(None, (self.paragraphs(part.find(which)) for which in
                                         ("briefdescription", "detaileddescription"))))

    def paragraphs(self, part):
        if part is None:
            return ""
        done = []
        for para in part.iter("para"):
            done += self.pieces(para)
        return "\n\n".join(piece for piece in done if piece.strip())

    def pieces(self, para):
        """A paragraph's text, cut at what stands as it is."""
        found = [para.text or ""]
        for child in para:
            if child.tag in ("verbatim", "programlisting", "preformatted"):
                found += ["```text\n" + "".join(child.itertext()).strip("\n") + "\n```", child.tail or ""]
            elif child.tag in ("itemizedlist", "orderedlist", "para"):
                found += [self.paragraphs(child), child.tail or ""]
            else:
                found[-1] += "".join(child.itertext()) + (child.tail or "")
        return [piece if piece.startswith("```") else escaped(" ".join(piece.split())) for piece in found]

    def linked(self, text, header):
        """Names of functions in text, not in code, become links to their declarations."""
        def link(match):
            place = self.names.get(match[0])
            if not place:
                return match[0]
            return f"[{match[0]}]({'' if place == header else page_of(place)}#{match[0].lower()})"
        parts = re.split(r"(?ms)(^```.*?^```$|^#.*?$|`[^`\n]*`|<a [^>]*>)", text)
        return "".join(part if number % 2 else NAME.sub(link, part) for number, part in enumerate(parts))

    # ---- A page ----

    def page(self, header):
        source = self.source(header)
        sections = [(number, next(filter(None, match.groups()))) for number, match in
                    ((number, SECTION.match(line.strip())) for number, line in enumerate(source, 1)) if match]
        groups = []
        for entry in sorted(self.entries[header], key=lambda one: one.line):
            before = groups[-1][-1] if groups else None
            shares = before and entry.kind == before.kind and entry.line - before.end <= CLOSE
            if shares and (entry.kind == "function" and not entry.text or
                           entry.kind == "define" and entry.line == before.end + 1):
                groups[-1].append(entry)
            else:
                groups.append([entry])
        text = self.text_of(self.files[header])
        text = text.lstrip(": ")  # Doxygen has taken the name before it for the file's
        done = [f"# &lt;{header}&gt;", text[:1].upper() + text[1:]]
        for group in groups:
            while sections and sections[0][0] < group[0].line:
                done.append(f"## {sections.pop(0)[1]}")
            done += self.group(group)
        return self.linked("\n\n".join(filter(None, done)), header) + "\n"

    def group(self, group):
        language = "cpp" if group[0].members or "::" in group[0].code else "c"
        yield "### " + ", ".join(f"`{entry.name}`" for entry in group[:4]) + (", …" if len(group) > 4 else "") + (
            f" {{ #{group[0].name.lower()} }}")
        anchors = "".join(f'<a id="{entry.name.lower()}"></a>' for entry in group[1:])
        yield anchors
        yield f"```{language}\n" + "\n".join(entry.code for entry in group) + "\n```"
        yield "" if group[0].kind == "define" and "/*" in group[0].code else group[0].text
        for member in group[0].members:
            code = f"{member.findtext('definition')}{member.findtext('argsstring')}"
            code = re.sub(r"onespace::sync::(?:\w+(?:<[^>]*>)?::)*", "", code).split(" = ")[0]
            text = self.text_of(member)
            yield f"- `{code}`" + (f": {text[:1].lower() + text[1:]}" if text else "")


def words_of(part):
    return " ".join(filter(None, (part.findtext("type") or "".join((part.find("type") or part).itertext()),
                                  part.findtext("declname")))).strip()


def escaped(text):
    """No character of a comment is Markdown's but pairs of backquotes."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = ["\\`".join(parts)]
    for number in range(0, len(parts), 2):
        parts[number] = re.sub(r"([*\[\]])|(?<!\w)_", lambda match: "\\" + match[0],
                               parts[number].replace("&", "&amp;").replace("<", "&lt;"))
    return "`".join(parts)


def page_of(header):
    return re.sub(r"[/.]", "-", header) + ".md"

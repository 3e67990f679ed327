"""Reading a scenario file: statements at the left margin, each with an indented block that may be empty."""

from dataclasses import dataclass, field


class Failure(Exception):
    """A scenario that does not hold, or cannot be read. `line` is in its file."""

    def __init__(self, line, message):
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass
class Statement:
    line: int
    text: str
    block: list = field(default_factory=list)  # of lines, without the indent


def read(path):
    """The statements of a file. `for NAME in` … `end` is written out, once per line of its block."""
    statements = []
    blank = 0
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not raw.strip():
            blank += 1
            continue
        if raw.startswith("  "):
            if not statements:
                raise Failure(number, "an indented line without a statement above it")
            block = statements[-1].block
            if block:
                block.extend([""] * blank)
            block.append(raw[2:])
        elif raw.startswith("#"):
            pass
        elif raw[0].isspace():
            raise Failure(number, "a block is indented by two spaces")
        else:
            statements.append(Statement(number, raw.strip()))
        blank = 0
    return written_out(statements)


def written_out(statements):
    out = []
    rest = list(statements)
    while rest:
        statement = rest.pop(0)
        if not statement.text.startswith("for "):
            out.append(statement)
            continue
        words = statement.text.split()
        if len(words) != 3 or words[2] != "in":
            raise Failure(statement.line, "write `for NAME in`, and a value per line of the block")
        body = []
        while rest and rest[0].text != "end":
            body.append(rest.pop(0))
        if not rest:
            raise Failure(statement.line, "`for` without an `end`")
        rest.pop(0)
        for value in statement.block:
            name = f"<{words[1]}>"
            for each in body:
                out.append(Statement(each.line, each.text.replace(name, value),
                                     [line.replace(name, value) for line in each.block]))
    return out

"""The examples of operators in the documentation print what they say."""
import contextlib
import io
import pathlib
import re

import flambeau

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "examples.md"


def statements(text):
    """The statements of a session, each with what it prints (blank lines included, where `doctest` would stop)."""
    for part in re.split(r"^>>> ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        more = next(i for i, line in enumerate(lines) if i > 0 and not line.startswith("... "))
        yield "\n".join([lines[0]] + [line[4:] for line in lines[1:more]]), "\n".join(lines[more:]).strip()


def test_examples_print_what_they_say():
    wrong, names = [], {"flambeau": flambeau}
    sessions = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for statement, expected in (s for session in sessions for s in statements(session)):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(statement + "\n", "example", "single"), names)
        except Exception as error:
            printed.write(f"{type(error).__name__}: {error}")
        if printed.getvalue().strip() != expected:
            wrong.append(f"{statement}\ngives\n{printed.getvalue()}\nand not\n{expected}\n")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
    assert len(sessions) > 900

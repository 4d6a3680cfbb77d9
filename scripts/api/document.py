"""The document about the interface."""

HEAD = """# How much of PyTorch's interface exists

PyTorch 2.13's public names, and whether they exist here: of modules what they list as public, of classes their own members.
*Alike* counts functions and classes written in Python that take PyTorch's arguments with PyTorch's defaults. A name that
exists does what PyTorch's does or says clearly that it cannot. `python3 scripts/api` writes this page.

| namespace | names | members | alike |
| --- | --- | --- | --- |
"""


def _share(there, total):
    return f"{there} of {total}" if there < total else (str(total) if total else "")


def write(found):
    """The whole page."""
    rows, sums = [], [0] * 6
    for n in found.namespaces:
        counts = (n.total - len(n.absent), n.total, n.members - len(n.absent_members), n.members,
                  n.compared - len(n.different), n.compared)  # fmt: skip
        sums = [a + b for a, b in zip(sums, counts)]
        rows.append(_row(f"`{n.name}`", counts))
    parts = [HEAD + "".join(rows) + _row("**all**", sums), "## Absent on purpose\n"]
    for reason, names in found.reasons.items():
        if names:
            parts.append(f"**{reason}** ({len(names)})\n\n{_listed(names)}\n")
    if found.waiting:
        parts.append(f"## Not there yet\n\nOperators that the core lacks, and what stands on them:\n\n{_listed(found.waiting)}\n")
    different = [f"{n.name}.{name}" for n in found.namespaces for name in n.different]
    if different:
        parts.append(f"## Other parameters\n\nTheir arguments have other names, or they take fewer:\n\n{_listed(different)}\n")
    return "\n".join(parts)


def _row(name, counts):
    names, members, alike = (_share(*counts[i : i + 2]) for i in (0, 2, 4))
    return f"| {name} | {names} | {members} | {alike} |\n"


def _listed(names):
    """Names by namespace, in lines of bearable length."""
    groups = {}
    for name in names:
        owner, _, short = name.rpartition(".")
        groups.setdefault(owner, []).append(short)
    lines = []
    for owner, shorts in groups.items():
        line = f"* `{owner}`:"
        for short in sorted(shorts):
            if len(line) + len(short) > 118:
                lines.append(line)
                line = " "
            line += f" {short}"
        lines.append(line)
    return "\n".join(lines)

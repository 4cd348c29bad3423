"""Put another policy into the text of a run.toml and leave every other byte of it alone."""

from __future__ import annotations

import re
import tomllib

import tomli_w

from andrea_engine.run.policy import Policy

_HEADER = re.compile(r"""[ \t]*\[\[?[ \t]*(?P<name>[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')""")


def replace_policy(text: str, policy: Policy, note: str) -> str:
    """`text` with `policy` as its `[policy]` tables and `note`, one line, as a comment in them.

    The new tables take the place of the old ones, or come last. Comments inside the old tables go with them, those
    directly above the next table stay. Where the policy is written so that it cannot be cut out (inline, or as dotted
    keys), the whole text is written anew, without its comments. A second application changes nothing more.
    Raises tomllib.TOMLDecodeError when `text` is not TOML.
    """
    tables = tomllib.loads(text)
    block = f"[policy]\n# {note}\n\n{tomli_w.dumps({'policy': policy.to_mapping()})}"
    result = _spliced(text, block)
    try:
        if tomllib.loads(result) == {**tables, "policy": policy.to_mapping()}:
            return result
    except tomllib.TOMLDecodeError:
        pass  # what looked like a header was something else
    tables.pop("policy", None)
    return f"{tomli_w.dumps(tables)}\n{block}"


def _spliced(text: str, block: str) -> str:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    kept: list[str] = []
    dropped: list[str] = []  # of the policy table being read: its end may belong to the next table
    in_policy = placed = False
    for line in lines:
        header = _HEADER.match(line)
        if header is not None:
            is_policy = header["name"].strip("\"'") == "policy"
            if in_policy and not is_policy:
                kept += _lead(dropped)
            if is_policy and not placed:
                kept.append(block)
                placed = True
            if is_policy != in_policy:
                dropped = []
            in_policy = is_policy
        (dropped if in_policy else kept).append(line)
    if in_policy:
        kept += _lead(dropped)
    if not placed:
        end = "" if not kept or kept[-1].endswith("\n") else "\n"
        kept.append(f"{end}\n{block}")
    return "".join(kept)


def _lead(lines: list[str]) -> list[str]:
    """The comments and empty lines at the end of `lines`: they speak of what follows."""
    start = len(lines)
    while start and (not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#")):
        start -= 1
    return lines[start:]

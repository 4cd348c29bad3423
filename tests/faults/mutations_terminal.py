"""Safeguards of the terminal: nothing that it would obey gets there, on any of the ways."""

from __future__ import annotations

from tests.faults.mutation import Mutation, cut, ids, of

_STATUS = ids("run/test_ways_to_the_terminal", "every_line_of_the_status")
_NOTICE = ids("screens/test_ways_to_the_screen", "a_notification")


def _status(name: str, old: str, new: str) -> Mutation:
    return cut(name, old, new, _STATUS)


TERMINAL = (
    *of(
        "andrea_engine/run/plain.py",
        cut(
            "control characters become marks",
            "    return _HOSTILE.sub(_mark, text)\n",
            "    return text\n",
            ids("run/test_plain", "no_control_character_survives_but_newline"),
        ),
        cut("C1 controls", "\\x7f-\\x9f", "\\x7f", ids("run/test_plain", "no_control_character_survives_but_newline")),
        cut("bidi controls", "\\u202a-\\u202e", "", ids("run/test_plain", "every_control_leaves_a_mark")),
        cut("bidi isolates", "\\u2066-\\u2069", "", ids("run/test_plain", "every_control_leaves_a_mark")),
        cut("surrogates", "\\ud800-\\udfff", "", ids("run/test_plain", "every_control_leaves_a_mark")),
    ),
    *of(
        "andrea_engine/run/summary_text.py",  # `andrea-engine status` and `andrea-tui --once`
        _status("the run", "{clean(s.run)}", "{s.run}"),
        _status("the state", "{clean(s.state)}", "{s.state}"),
        _status("the sentence", "{clean(s.sentence)}", "{s.sentence}"),
        _status("the advice", "{clean(s.advice)}", "{s.advice}"),
        _status("the device", "{clean(s.device)}", "{s.device}"),
        _status("problems", "{clean(problem)}", "{problem}"),
        _status("why power is unknown", "{clean(why)}", "{why}"),
        _status("the currency", "{clean(s.currency)}", "{s.currency}"),
        _status("a sample", 'clean(" ".join(s.sample.text.split()))', '" ".join(s.sample.text.split())'),
        _status("alarms", "{clean(', '.join(s.alarms))}", "{', '.join(s.alarms)}"),
        _status("an arm", "{clean(str(row['name'])):<20}", "{row['name']:<20}"),
        _status(
            "what holds an arm",
            'clean(str(row["held_by"] if row["available"] else row["reason"] or "unavailable")),',
            'str(row["held_by"] if row["available"] else row["reason"] or "unavailable"),',
        ),
        _status("a checkpoint's name", "{clean(c.file)}", "{c.file}"),
        _status("a checkpoint's problem", "{clean(c.problem)}", "{c.problem}"),
    ),
    *of(
        "andrea_engine/run/lock.py",
        cut(
            "who holds the lock",
            "return clean(f\"the engine with pid {data.get('pid')} on {data.get('host')}\")",
            "return f\"the engine with pid {data.get('pid')} on {data.get('host')}\"",
            ids("run/test_lock", "whatever_the_file_holds_the_loser_gets_one_clean_sentence"),
        ),
    ),
    *of(
        "andrea_engine/cli.py",
        cut(
            "errors of the engine's commands",
            "{clean(str(error))}",
            "{error}",
            ids("run/test_ways_to_the_terminal", "errors_of_commands"),
        ),
    ),
    *of(
        "andrea_engine/run/findings.py",
        cut(
            "what a check says",
            'return clean(text).replace("\\n", "\\u240a")',
            "return text",
            ids("run/test_check", "hostile_names_and_content_are_only_shown"),
        ),
    ),
    *of(
        "andrea_engine/train/hooks.py",
        cut(
            "what the alarm command gets",
            "clean(str(value))[:LONGEST_VALUE]",
            "str(value)[:LONGEST_VALUE]",
            ids("train/test_gate_hook", "control_characters_of_a_message_do_not_reach_the_command"),
        ),
    ),
    *of(
        "andrea_engine/commands/sample.py",
        cut(
            "a new sample",
            "print(clean(options.prompt + sample.text), flush=True)",
            "print(options.prompt + sample.text, flush=True)",
            ids("commands/test_sample", "control_characters_are_not_obeyed"),
        ),
    ),
    *of(
        "andrea_tui/cli.py",
        cut(
            "errors of the console's command line",
            'print(f"andrea-tui: {clean(str(error))}"',
            'print(f"andrea-tui: {error}"',
            ids("run/test_ways_to_the_terminal", "errors_of_commands"),
        ),
        cut(
            "the last line",
            'return clean(f"{directory.path}: {going}; {save}{file}; {back}".replace("\\n", " "))',
            'return f"{directory.path}: {going}; {save}{file}; {back}"',
            ids("screens/test_ways_to_the_screen", "the_last_line"),
        ),
    ),
    *of(
        "andrea_tui/feed/runs_text.py",
        cut(
            "names in the list of runs",
            "    names = [clean(row.name) for row in listing.rows]\n",
            "    names = [row.name for row in listing.rows]\n",
            ids("feed/test_runs", "hostile_directories"),
        ),
        cut(
            "states in the list of runs",
            "{clean(row.word):<11}",
            "{row.word:<11}",
            ids("screens/test_ways_to_the_screen", "the_list_of_runs"),
        ),
        cut(
            "why there is no list of runs",
            "        return clean(listing.problem)\n",
            "        return listing.problem\n",
            ids("screens/test_ways_to_the_screen", "the_list_of_runs"),
        ),
    ),
    *of(
        "andrea_tui/widgets/rows.py",
        cut(
            "rows of panels",
            "(_in_one_line(text[:LONGEST]), meaning)",
            '(text[:LONGEST].replace("\\n", NEWLINE), meaning)',
            ids("widgets/test_rows", "a_laid_out_row_holds_nothing_that_a_terminal_obeys"),
        ),
        cut(
            "newlines in rows",
            '.replace("\\n", NEWLINE)',
            "",
            ids("widgets/test_rows", "a_laid_out_row_holds_nothing_that_a_terminal_obeys"),
        ),
        cut(
            "rows of ASCII only",
            "[[(to_ascii(text), meaning) for text, meaning in row] for row in shown]",
            "shown",
            ids("widgets/test_rows", "a_laid_out_row_holds_nothing_that_a_terminal_obeys"),
        ),
        cut(
            "what is shown at all",
            "return clean(text) if text.isascii()",
            "return text if text.isascii()",
            ids("widgets/test_rows", "a_laid_out_row_holds_nothing_that_a_terminal_obeys"),
        ),
        cut(
            "what is shown of other scripts",
            '_INVISIBLE.sub("", clean(text))',
            '_INVISIBLE.sub("", text)',
            ids("widgets/test_rows", "a_laid_out_row_holds_nothing_that_a_terminal_obeys"),
        ),
    ),
    *of(
        "andrea_tui/terminal_app.py",
        cut("notifications", "visible(message[:LONGEST])", "message[:LONGEST]", _NOTICE),
        cut("no markup in notifications", "timeout=timeout, markup=False)", "timeout=timeout, markup=True)", _NOTICE),
        cut(
            "the filters of everything",
            "return [*others, *self._guards]",
            "return [*others]",
            ids("screens/test_ways_to_the_screen", "what_a_ready_made_widget_shows"),
        ),
    ),
    *of(
        "andrea_tui/palette.py",
        cut(
            "reasons in the palette",
            "escape(visible(reason[:LONGEST]))",
            "escape(reason[:LONGEST])",
            ids("screens/test_ways_to_the_screen", "the_palette"),
        ),
    ),
    *of(
        "andrea_tui/guard.py",
        cut(
            "control characters in ready-made widgets",
            "Segment(_blanked(segment.text), segment.style, segment.control)",
            "segment",
            ids("screens/test_ways_to_the_screen", "what_a_ready_made_widget_shows"),
        ),
        cut(
            "ASCII in ready-made widgets",
            "Segment(ascii_cells(segment.text), segment.style, segment.control)",
            "segment",
            ids("widgets/test_guard", "only_what_has_to_change_changes"),
        ),
        cut(
            "no colours where none are wanted",
            "Segment(text, None if style is None else _without_colour(style), control)",
            "Segment(text, style, control)",
            ids("widgets/test_guard", "no_colour_is_left_and_grounds_are_reversed"),
        ),
    ),
    *of(
        "andrea_tui/screens/dialog.py",
        cut(
            "lines of dialogs",
            "visible(line[:LONGEST])",
            "line[:LONGEST]",
            ids("screens/test_ways_to_the_screen", "a_dialog"),
        ),
        cut(
            "choices of dialogs",
            "visible(choice.text[:LONGEST])",
            "choice.text[:LONGEST]",
            ids("screens/test_ways_to_the_screen", "a_dialog"),
        ),
    ),
)

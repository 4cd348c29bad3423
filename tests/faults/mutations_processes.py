"""Safeguards between processes: locks, signals, who a process is, and who may act."""

from __future__ import annotations

from tests.faults.mutation import cut, ids, of

_LOCK = "run/test_lock"
_LAUNCH = "run/test_launch"
_LATCH = "train/test_engine_latch"
_LIVING = "e2e/test_living"
_RIGHTS = "screens/test_rights"
_STRANGER = ids(_LAUNCH, "a_stranger_is_never_signalled")

PROCESSES = (
    *of(
        "andrea_engine/run/lock.py",
        cut(
            "the engine's lock",
            "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
            "        pass\n",
            ids(_LOCK, "four_at_once_have_one_winner_and_a_kill_frees_the_lock"),
        ),
        cut(
            "the engine's lock is not shared",
            "fcntl.LOCK_EX | fcntl.LOCK_NB",
            "fcntl.LOCK_SH | fcntl.LOCK_NB",
            ids(_LOCK, "four_at_once_have_one_winner_and_a_kill_frees_the_lock"),
        ),
        cut(
            "a child does not keep the lock",
            "        os.register_at_fork(after_in_child=self.release)\n",
            "",
            ids(_LOCK, "a_child_that_outlives_the_engine_does_not_hold_its_lock"),
        ),
        cut(
            "locks that do not work are refused",
            "        os.close(descriptor)\n        raise ConfigError(\n",
            "        return descriptor\n        raise ConfigError(\n",
            ids(_LOCK, "where_locks_do_not_work_it_is_not_called_in_use"),
        ),
        cut(
            "without a lock table the lock itself is asked",
            "        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
            "        pass\n",
            ids(_LOCK, "without_a_lock_table_the_lock_itself_is_asked"),
        ),
    ),
    *of(
        "andrea_engine/train/engine.py",
        cut(
            "the engine takes the lock",
            "    lock = EngineLock(directory)\n",
            "    from types import SimpleNamespace\n    lock = SimpleNamespace(release=lambda: None)\n",
            ids("train/test_engine_damage", "of_four_engines_at_once_exactly_one_runs"),
        ),
    ),
    *of(
        "andrea_engine/run/intent.py",
        cut(
            "the events lock",
            "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
            "        pass\n",
            ids("run/test_pins", "a_busy_log_is_an_answer_and_no_pin"),
            ids("run/test_pivot_ask", "who_holds_the_guard_is_waited_for"),
        ),
        cut(
            "an archive lies in the run",
            "    if folder != directory.archive.name or not ARCHIVE_PATTERN.fullmatch(name):\n",
            "    if False:\n",
            ids("run/test_pivot_ask", "a_damaged_intent_is_refused"),
        ),
    ),
    *of(
        "andrea_engine/run/pins.py",
        cut(
            "the events lock while a checkpoint is pinned",
            '    with guard(directory, patience, what="pins"):\n',
            "    if True:\n",
            ids("run/test_pins", "a_busy_log_is_an_answer_and_no_pin"),
        ),
        cut(
            "the events lock while a pin is taken back",
            '    with guard(directory, what="pins"):\n',
            "    if True:\n",
            ids("run/test_events_lock", "nobody_changes_what_somebody_else_is_changing"),
        ),
        cut(
            "only what is valid is pinned",
            "        if not file.valid:\n",
            "        if False:\n",
            ids("run/test_pins", "only_what_is_there_and_valid_is_pinned"),
        ),
        cut(
            "an unwritten pin is no pin",
            "    if events.problem:\n",
            "    if False:\n",
            ids("run/test_events_lock", "a_pin_that_could_not_be_written_is_not_called_one"),
        ),
    ),
    *of(
        "andrea_engine/run/pivot.py",
        cut(
            "the events lock while a pivot is asked for",
            "    with guard(directory):\n        planned",
            "    if True:\n        planned",
            ids("run/test_events_lock", "nobody_changes_what_somebody_else_is_changing"),
        ),
        cut(
            "the events lock while a pivot is taken back",
            "    with guard(directory):\n        intent = read_intent(directory)\n        if intent is None:\n",
            "    if True:\n        intent = read_intent(directory)\n        if intent is None:\n",
            ids("run/test_events_lock", "nobody_changes_what_somebody_else_is_changing"),
        ),
        cut(
            "what is reached is not taken back",
            '        if intent.phase != "asked":\n',
            "        if False:\n",
            ids("run/test_pivot_ask", "what_is_reached_cannot_be_cancelled"),
        ),
    ),
    *of(
        "andrea_engine/run/pivot_sequence.py",
        cut(
            "the events lock while a pivot is sealed",
            "    with guard(directory):\n        again",
            "    if True:\n        again",
            ids("run/test_events_lock", "nobody_changes_what_somebody_else_is_changing"),
        ),
    ),
    *of(
        "andrea_engine/train/pivoting.py",
        cut(
            "the events lock while the engine leaves for a pivot",
            "            with guard(self._context.directory, PATIENCE):\n                intent",
            "            if True:\n                intent",
            ids("train/test_pivot_lock", "the_engine_leaves_for_no_intent_that_is_being_changed"),
        ),
        cut(
            "the events lock while a pivot moves on",
            "            with guard(self._context.directory, PATIENCE):\n                again",
            "            if True:\n                again",
            ids("train/test_pivot_lock", "a_step_that_passed_unseen_moves_when_nobody_changes_the_intent"),
        ),
    ),
    *of(
        "andrea_engine/run/repair_stages.py",
        cut(
            "the events lock while the log is cut",
            '    with guard(workshop.directory, what="events"):\n',
            "    if True:\n",
            ids("run/test_events_lock", "nobody_changes_what_somebody_else_is_changing"),
        ),
    ),
    *of(
        "andrea_engine/run/launch.py",
        cut(
            "signals are blocked across the spawn",
            "signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)",
            "signal.pthread_sigmask(signal.SIG_BLOCK, ())",
            ids(_LAUNCH, "signals_sent_at_once_are_delivered_after_the_engine_is_armed"),
        ),
        cut(
            "the starter's own mask is given back",
            "        signal.pthread_sigmask(signal.SIG_SETMASK, previous)\n",
            "        pass\n",
            ids(_LAUNCH, "a_start_that_fails_is_one_sentence_and_leaves_the_mask"),
        ),
        cut(
            "a session of its own",
            "start_new_session=True",
            "start_new_session=False",
            ids(_LAUNCH, "the_engine_is_independent_of_its_starter"),
        ),
        cut(
            "no input",
            "stdin=subprocess.DEVNULL, ",
            "",
            ids(_LAUNCH, "the_starters_input_is_its_own"),
        ),
        cut(
            "the machine is the same",
            "    if heartbeat.host != socket.gethostname():\n",
            "    if False:\n",
            _STRANGER,
        ),
        cut("the boot is the same", "    if heartbeat.boot_id != boot_id():\n", "    if False:\n", _STRANGER),
        cut(
            "a zombie has ended",
            "    if not is_alive(heartbeat.pid):\n",
            "    if False:\n",
            ids(_LAUNCH, "an_engine_that_ended_is_not_asked"),
        ),
        cut(
            "the start time is the same",
            "heartbeat.process_start is not None and start_time(heartbeat.pid) != heartbeat.process_start",
            "False",
            _STRANGER,
        ),
        cut(
            "it holds the run's lock",
            "heartbeat.pid not in lock_holders(directory.lock)",
            "False",
            ids(_LAUNCH, "an_engine_without_the_lock_is_not_asked"),
        ),
        cut(
            "it is the one that was meant",
            "meant is not None and _identity(meant) != _identity(heartbeat)",
            "False",
            ids("run/test_pidfd", "only_the_engine_that_was_meant_is_asked"),
        ),
        cut(
            "the problem is asked for",
            "        if problem is not None:\n            raise RunError",
            "        if False:\n            raise RunError",
            _STRANGER,
        ),
        cut(
            "a pidfd and not a number",
            "signal.pidfd_send_signal(descriptor, REQUESTS[what])",
            "os.kill(heartbeat.pid, REQUESTS[what])",
            ids("run/test_pidfd", "a_number_that_was_given_to_another_process_meanwhile"),
        ),
        cut(
            "the pidfd is opened before the identity is checked",
            "        descriptor = os.pidfd_open(heartbeat.pid)\n",
            "        _identity_problem(directory, heartbeat)\n        descriptor = os.pidfd_open(heartbeat.pid)\n",
            ids("run/test_pidfd", "a_number_that_was_given_to_another_process_meanwhile"),
        ),
    ),
    *of(
        "andrea_engine/run/process.py",
        cut(
            "zombies are not alive",
            'return state not in "ZX"',
            "return True",
            ids("run/test_process", "states_of_a_child_until_its_end"),
        ),
        cut(
            "the inode is that of the lock",
            ' and fields[5].rsplit(":", 1)[-1] == str(inode)',
            "",
            ids("run/test_process", "holders_of_a_lock"),
        ),
    ),
    *of(
        "andrea_engine/latch.py",
        cut(
            "SIGUSR1",
            "        signal.signal(signal.SIGUSR1, self._on_save)\n",
            "",
            ids(_LATCH, "each_signal_sets_its_flag"),
        ),
        cut(
            "SIGTERM",
            "        signal.signal(signal.SIGTERM, self._on_stop)\n",
            "",
            ids(_LATCH, "each_signal_sets_its_flag"),
        ),
        cut(
            "SIGINT",
            "        signal.signal(signal.SIGINT, self._on_stop)\n",
            "",
            ids(_LATCH, "each_signal_sets_its_flag"),
        ),
        cut(
            "SIGHUP",
            "            signal.signal(signal.SIGHUP, self._on_stop)\n",
            "            pass\n",
            ids(_LATCH, "each_signal_sets_its_flag"),
        ),
        cut(
            "a hang-up that is ignored stays so",
            "        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup",
            "        if True:  # nohup",
            ids(_LATCH, "a_hang_up_that_was_ignored_stays_ignored"),
        ),
        cut(
            "signals are let through when the handlers are there",
            "        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)\n",
            "",
            ids(_LATCH, "what_was_sent_before_the_arming_waits"),
        ),
        cut(
            "and not before",
            "        signal.signal(signal.SIGUSR1, self._on_save)\n",
            "        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)\n"
            "        signal.signal(signal.SIGUSR1, self._on_save)\n",
            ids(_LATCH, "what_was_sent_before_the_arming_waits"),
        ),
        cut(
            "signals are ignored at the very end",
            "            signal.signal(number, signal.SIG_IGN)\n",
            "            pass\n",
            ids(_LATCH, "a_retired_latch_lives_through_everything"),
        ),
        cut(
            "a request is taken once",
            "            self.save_asked = None\n",
            "            pass\n",
            ids(_LATCH, "a_request_is_taken_once"),
        ),
    ),
    *of(
        "andrea_engine/__main__.py",
        cut(
            "armed before anything else",
            "LATCH.arm()\n",
            "",
            ids("architecture/test_source", "the_handlers_are_armed_by_the_first_statements"),
            ids("architecture/test_imports", "arming_comes_before_everything_heavy"),
        ),
    ),
    *of(
        "andrea_engine/commands/train.py",
        cut(
            "the latch is retired when all is done",
            "        latch.retire()\n",
            "        pass\n",
            ids("train/test_engine_signals", "stop_requests_until_the_process_is_gone_change_nothing"),
        ),
    ),
    *of(
        "andrea_engine/train/agent.py",
        cut(
            "torchrun does not end by a request to save",
            "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n",
            "",
            ids("e2e/test_ranks", "a_save_may_be_asked_of_any_process_and_a_stop_of_all"),
        ),
    ),
    *of(
        "andrea_tui/parent.py",
        cut(
            "signals wait for the parent",
            "signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)",
            "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})",
            ids(_LIVING, "a_signal_ends_the_console_cleanly"),
        ),
        cut(
            "and not for the console",
            "        signal.pthread_sigmask(signal.SIG_SETMASK, before)\n",
            "",
            ids("e2e/test_parent", "the_parent_waits_for_signals_and_the_console_does_not"),
        ),
        cut(
            "signals are passed on",
            "            os.kill(child, number)\n",
            "",
            ids(_LIVING, "a_signal_ends_the_console_cleanly"),
        ),
        cut(
            "a console ends with its parent",
            "    signal_at_parents_end(signal.SIGHUP)\n",
            "",
            ids("e2e/test_parent", "a_console_ends_with_a_parent_that_leads_no_session"),
        ),
        cut(
            "also with one that ended before",
            "    if os.getppid() != parent:\n",
            "    if False:\n",
            ids("e2e/test_parent", "a_parent_that_ended_before_it_could_be_watched"),
        ),
        cut(
            "the terminal's settings are given back",
            "    termios.tcsetattr(0, termios.TCSANOW, settings)  # type: ignore[arg-type]\n",
            "",
            ids(_LIVING, "killing_the_console_leaves_the_engine_training"),
        ),
        cut(
            "the terminal's modes are given back",
            "    os.write(1, _RESET)\n",
            "",
            ids(_LIVING, "killing_the_console_leaves_the_engine_training"),
        ),
    ),
    *of(
        "andrea_tui/leaving.py",
        cut(
            "signals are let through once the handlers stand",
            "    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVE_SIGNALS)\n",
            "",
            ids(_LIVING, "a_signal_ends_the_console_cleanly"),
        ),
    ),
    *of(
        "andrea_tui/cli.py",
        cut(
            "signals wait while the screen is being opened",
            "    before = signal.pthread_sigmask(signal.SIG_BLOCK, LEAVE_SIGNALS)\n",
            "    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())\n",
            ids(_LIVING, "a_signal_while_the_screen_is_being_opened"),
        ),
    ),
    *of(
        "andrea_tui/control.py",
        cut(
            "who may start",
            "        self._may_act()\n        self._spawn(arguments)\n",
            "        self._spawn(arguments)\n",
            ids(_RIGHTS, "who_may_not_act_does_nothing"),
        ),
        cut(
            "who may restart",
            "        if reason:\n            raise RunError(reason)\n        self._spawn(())\n",
            "        self._spawn(())\n",
            ids(_RIGHTS, "who_may_not_act_does_nothing"),
        ),
        cut(
            "who may kill",
            "        self._may_act()\n        self.killed_pid",
            "        self.killed_pid",
            ids(_RIGHTS, "who_may_not_act_does_nothing"),
        ),
        cut(
            "who may save",
            '        self._may_act()\n        request(self.directory, "save")\n',
            '        request(self.directory, "save")\n',
            ids(_RIGHTS, "who_may_not_act_does_nothing"),
        ),
        cut(
            "who may stop",
            "        self._may_act()\n        self.stopped_pid",
            "        self.stopped_pid",
            ids(_RIGHTS, "who_may_not_act_does_nothing"),
        ),
        cut(
            "a console of an earlier boot is not in charge",
            "        return same_boot and is_alive",
            "        return is_alive",
            ids(_RIGHTS, "a_console_that_is_gone_is_not_in_charge"),
        ),
        cut(
            "a console that ended is not in charge",
            " and is_alive(owner.pid)",
            "",
            ids(_RIGHTS, "a_console_that_is_gone_is_not_in_charge"),
        ),
        cut(
            "a process with its number is not in charge",
            " and start_time(owner.pid) == owner.process_start",
            "",
            ids(_RIGHTS, "a_console_that_is_gone_is_not_in_charge"),
        ),
        cut(
            "only its own right is given back",
            "        if not self.watch and self._owner() == self._me:\n",
            "        if not self.watch:\n",
            ids(_RIGHTS, "leaving_takes_no_right_from_another_console"),
        ),
        cut(
            "who has left does not claim the run again",
            "        if self._released:",
            "        if False:",
            ids("screens/test_control", "a_control_that_was_released_never_claims_the_run_again"),
        ),
    ),
)

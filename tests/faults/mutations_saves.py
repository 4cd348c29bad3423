"""Safeguards of saves, and of what moves files: the order of everything, what is kept, pivots, roll-backs, repairs."""

from __future__ import annotations

from tests.faults.mutation import cut, ids, of

_DURABLE = "run/test_durable_order"
_WRITER = "train/test_checkpointing"

SAVES = (
    *of(
        "andrea_engine/train/checkpointing.py",
        cut(
            "numbers are looked at before they are written",
            "            problem = numbers_problem(self._staging, job.step)\n",
            "            problem = None\n",
            ids(_WRITER, "nothing_that_is_not_finite_is_written"),
        ),
        cut(
            "the journal is durable before the checkpoint",
            "            self._record.sync_journal()\n",
            "",
            ids(_WRITER, "everything_is_durable_before_the_word_saved"),
        ),
        cut(
            "the checkpoint is durable before the record",
            "            written = write_checkpoint",
            "            self._commit(job)\n            written = write_checkpoint",
            ids(_WRITER, "the_record_is_committed_with_the_checkpoint_and_not_before"),
        ),
        cut(
            "the record is committed",
            "            self._record.commit(job.step)\n",
            "",
            ids(_WRITER, "the_record_is_committed_with_the_checkpoint_and_not_before"),
        ),
        cut(
            "the record is committed before the word saved",
            "            self._commit(job)\n            self._durable(job, written)\n",
            "            self._durable(job, written)\n            self._commit(job)\n",
            ids(_WRITER, "everything_is_durable_before_the_word_saved"),
        ),
        cut(
            "a failed save is never called saved",
            "        self.error = SaveError(reason)\n",
            "",
            ids(_WRITER, "a_failed_write_is_said_and_the_next_one_succeeds"),
        ),
        cut(
            "one write at a time",
            "        self.wait()\n        self._stage()\n",
            "        self._stage()\n",
            ids(_WRITER, "one_write_at_a_time"),
        ),
        cut(
            "a copy is written, and not what training changes",
            "            torch.from_numpy(row).copy_(buffer.detach())\n",
            "            pass\n        self._staging = [buffer.detach().numpy() for buffer in buffers]\n",
            ids(_WRITER, "training_may_go_on_while_the_file_is_written"),
        ),
        cut(
            "what was asked for is pinned, also in memory",
            "            self.pinned.add(job.step)\n",
            "            pass\n",
            ids(_WRITER, "a_save_that_was_asked_for_stays_pinned_without_an_event_log"),
        ),
        cut(
            "pins of others are read before anything is removed",
            "            self._pins.read(self.pinned)\n",
            "",
            ids(_WRITER, "nothing_is_removed_while_somebody_pins"),
        ),
        cut(
            "the events lock while something is removed",
            '        with guard(self._directory, patience=0.0, what="pins"):\n',
            "        if True:\n",
            ids(_WRITER, "nothing_is_removed_while_somebody_pins"),
        ),
        cut(
            "what is not valid does not count as kept",
            "list_checkpoints(self._directory.path) if file.valid}",
            "list_checkpoints(self._directory.path)}",
            ids("train/test_engine_keep", "a_file_that_is_not_valid_is_neither_counted_nor_removed"),
        ),
        cut(
            "protected checkpoints",
            "self.pinned | self.protect()",
            "self.pinned",
            ids(_WRITER, "the_keep_rule_is_applied_after_the_new_file_is_durable"),
        ),
    ),
    *of(
        "andrea_engine/train/resume.py",
        cut(
            "digests on load",
            "shape.n_params, known_digests(context.history), content_problem",
            "shape.n_params, {}, content_problem",
            ids("train/test_engine_damage", "the_previous_checkpoint_takes_the_place_of_a_damaged_one"),
        ),
        cut(
            "numbers are looked at on load",
            "known_digests(context.history), content_problem)",
            "known_digests(context.history), lambda path: None)",
            ids("train/test_engine_damage", "numbers_that_cannot_be_trained_from_are_passed_over"),
        ),
        cut(
            "random weights do not continue a record",
            "        if LossReader(context.directory.loss).read_all():\n",
            "        if False:\n",
            ids("train/test_engine_damage", "a_record_without_checkpoints_is_not_continued_with_random_weights"),
        ),
    ),
    *of(
        "andrea_engine/train/saving.py",
        cut(
            "the last good checkpoint is pinned",
            '        self._context.events.append("pin", step=found[0], reason=why)\n',
            "",
            ids("train/test_saving", "the_last_good_checkpoint_is_the_newest_valid_one_up_to_the_step"),
        ),
        cut(
            "pins of earlier sessions",
            "        self.pinned = pinned_steps(context.history)\n",
            "        self.pinned = set()\n",
            ids("train/test_saving", "pins_of_earlier_sessions_are_known"),
        ),
        cut(
            "a failed save is tried again",
            "        elif self._retry_due():\n",
            "        elif False:\n",
            ids("train/test_saving", "a_failed_save_is_retried_with_pauses_that_double_up_to_a_minute"),
        ),
    ),
    *of(
        "andrea_engine/run/workshop.py",
        cut(
            "rename of an original",
            "        path.rename(target)\n",
            "        path.unlink()\n",
            ids("run/test_repair", "invalid_checkpoints_make_room_for_the_newest_valid_one"),
        ),
        cut(
            "fsync of the place of an original",
            "        fsync_directory(target.parent)\n",
            "",
            ids(_DURABLE, "an_original_that_a_repair_moves"),
        ),
        cut(
            "fsync of where an original was",
            "        fsync_directory(path.parent)\n",
            "",
            ids(_DURABLE, "an_original_that_a_repair_moves"),
        ),
        cut(
            "fsync of the names of the folders",
            "            fsync_directory(part.parent)\n",
            "",
            ids(_DURABLE, "an_original_that_a_repair_moves"),
        ),
    ),
    *of(
        "andrea_engine/run/repair_stages.py",
        cut(
            "fsync of a completed event",
            '        os.write(descriptor, b"\\n")\n        os.fsync(descriptor)\n',
            '        os.write(descriptor, b"\\n")\n',
            ids(_DURABLE, "an_event_log_that_a_repair_completes"),
        ),
        cut(
            "fsync of a cut event log",
            "                os.ftruncate(descriptor, end)\n                os.fsync(descriptor)\n",
            "                os.ftruncate(descriptor, end)\n",
            ids(_DURABLE, "an_event_log_that_a_repair_cuts"),
        ),
        cut(
            "a cut event is kept",
            "    workshop.keep(path, torn)\n",
            "",
            ids("run/test_repair", "the_torn_end_of_the_event_log"),
        ),
    ),
    *of(
        "andrea_engine/run/branching.py",
        cut(
            "rename of what is newer",
            "            file.path.rename(archive / file.path.name)\n",
            "            file.path.unlink()\n",
            ids("commands/test_branching", "rollback_archives_what_is_newer_and_training_repeats_it"),
        ),
        cut(
            "rename of the state",
            "            directory.state.rename(archive / directory.state.name)\n",
            "            directory.state.unlink()\n",
            ids("commands/test_branching", "rollback_archives_what_is_newer_and_training_repeats_it"),
        ),
        cut(
            "fsync of the name of the archive",
            "            fsync_directory(directory.archive)  # before anything moves into it\n",
            "",
            ids(_DURABLE, "a_rollback"),
        ),
        cut(
            "fsync of the archive",
            "        fsync_directory(archive)\n",
            "",
            ids(_DURABLE, "a_rollback"),
        ),
        cut(
            "fsync of where it was",
            "        fsync_directory(directory.path)\n",
            "",
            ids(_DURABLE, "a_rollback"),
        ),
        cut(
            "an archive is never used again",
            "        if not taken:\n",
            "        if True:\n",
            ids("commands/test_branching", "a_second_rollback_gets_its_own_archive"),
        ),
        cut(
            "the engine's lock in a rollback",
            "    lock = EngineLock(directory)\n    try:\n        _require",
            "    lock = contextlib.ExitStack()\n    lock.release = lock.close\n    try:\n        _require",
            ids(_DURABLE, "no_rollback_while_an_engine_runs"),
        ),
        cut(
            "link, or a copy where there are none",
            "    shutil.copyfile(source, target)\n",
            "",
            ids(_DURABLE, "a_fork_where_there_are_no_links"),
        ),
    ),
    *of(
        "andrea_engine/run/pivot.py",
        cut(
            "fsync after an intent was taken back",
            "            fsync_directory(directory.path)\n",
            "            pass\n",
            ids(_DURABLE, "a_pivot_that_is_taken_back"),
        ),
        cut(
            "the intent is written before the engine is rung",
            "            write_intent(directory, intent)\n",
            "            pass\n",
            ids("run/test_pivot_ask", "asking_writes_the_intent_and_rings"),
        ),
    ),
    *of(
        "andrea_engine/run/pivot_sequence.py",
        cut(
            "the engine's lock",
            "    lock = EngineLock(directory)\n    try:\n",
            "    from contextlib import ExitStack\n    lock = ExitStack()\n    lock.release = lock.close\n    try:\n",
            ids("run/test_pivot_sequence", "while_an_engine_runs_nothing_happens"),
        ),
        cut(
            "digests of the checkpoint",
            "config.n_params, digests, deep or _no_problem",
            "config.n_params, {}, deep or _no_problem",
            ids("run/test_pivot_sequence", "a_damaged_checkpoint_sends_it_back"),
        ),
        cut(
            "an intent that is gone is not sealed",
            "        if again is None or again.id != intent.id:\n            return None\n        intent = msgspec",
            "        again = again or intent\n        intent = msgspec",
            ids("run/test_pivot_sequence", "cancelled_at_the_last_moment"),
        ),
        cut(
            "sealed before anything moves",
            '"applying", sealed=sealed)\n        write_intent(directory, intent)\n',
            '"applying", sealed=sealed)\n',
            ids("run/test_pivot_crash", "stopped_once_anywhere"),
        ),
        cut(
            "rename into the archive",
            "    source.rename(target)\n",
            "    source.unlink()\n",
            ids("run/test_pivot_sequence", "the_engine_left_for_it"),
        ),
        cut(
            "nothing in the archive is overwritten",
            "    if os.path.lexists(target) or not os.path.lexists(source):\n",
            "    if not os.path.lexists(source):\n",
            ids("run/test_pivot_crash", "stopped_once_anywhere"),
        ),
        cut(
            "an archive of somebody else is never touched",
            "        if _is_foreign(directory.path / intent.archive, intent.id, sealed):\n",
            "        if False:\n",
            ids("run/test_pivot_sequence", "an_archive_of_the_same_name_is_never_touched"),
        ),
        cut(
            "fsync of the archive",
            "    fsync_directory(target.parent)\n",
            "",
            ids(_DURABLE, "a_pivot"),
        ),
        cut(
            "fsync of where it was",
            "    fsync_directory(source.parent)\n",
            "",
            ids(_DURABLE, "a_pivot"),
        ),
        cut(
            "fsync of the names of the folders",
            "            fsync_directory(folder.parent)\n",
            "",
            ids(_DURABLE, "a_pivot"),
        ),
        cut(
            "fsync after the intent is removed",
            "    fsync_directory(directory.path)\n    return receipt\n",
            "    return receipt\n",
            ids(_DURABLE, "a_pivot"),
        ),
        cut(
            "the receipt comes before the intent is removed",
            "        atomic_write(archive / RECEIPT,",
            "        directory.pivot_intent.unlink()\n        atomic_write(archive / RECEIPT,",
            ids("run/test_pivot_crash", "stopped_once_anywhere"),
        ),
        cut(
            "the pivot point is pinned",
            '        log(directory, "pin", intent, reason="pivot point")\n',
            "        pass\n",
            ids("run/test_pivot_sequence", "the_engine_left_for_it"),
        ),
    ),
)

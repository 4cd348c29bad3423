"""Safeguards of single files: fsyncs, renames, flags, checks of what was written and of what is read."""

from __future__ import annotations

from tests.faults.mutation import cut, ids, of

_IO = "run/test_io"
_WRITING = "run/test_checkpoint_writing"
_READING = "run/test_checkpoint_reading"
_RECORD = "run/test_loss_record"
_DURABLE = "run/test_durable_order"
_ORDER = ids(_WRITING, "the_order_of_system_calls")

FILES = (
    *of(
        "andrea_engine/run/io.py",
        cut(
            "fsync of a file before it gets its name",
            "            if durable:\n                os.fsync(descriptor)\n",
            "",
            _ORDER,
            ids(_IO, "durable_means_two_fsyncs_and_otherwise_none"),
        ),
        cut(
            "fsync of a directory",
            "    try:\n        os.fsync(descriptor)\n    finally:",
            "    try:\n        pass\n    finally:",
            _ORDER,
        ),
        cut(
            "fsync of the directory after the rename",
            "    if durable:\n        fsync_directory(path.parent)\n",
            "",
            _ORDER,
        ),
        cut(
            "the directory is fsynced after the rename, not before",
            "        temporary.replace(path)\n",
            "        fsync_directory(path.parent)\n        durable, _ = False, temporary.replace(path)\n",
            _ORDER,
        ),
        cut(
            "rename",
            "        temporary.replace(path)\n",
            "        path.write_bytes(temporary.read_bytes())\n        temporary.unlink()\n",
            ids(_WRITING, "the_same_step_again_replaces_the_file"),
            ids(_IO, "a_link_in_the_place_of_the_file_is_replaced_and_not_followed"),
        ),
        cut(
            "O_EXCL of a temporary file", "os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW", "os.O_CREAT | os.O_NOFOLLOW", _ORDER
        ),
        cut(
            "O_NOFOLLOW of a temporary file",
            "os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC",
            "os.O_EXCL | os.O_CLOEXEC",
            _ORDER,
        ),
        cut(
            "reservation of the space",
            "                preallocate(descriptor, size)\n",
            "                pass\n",
            _ORDER,
        ),
        cut(
            "a disk that is full at the reservation is told",
            "        if error.errno not in {95, 22, 38}:  # EOPNOTSUPP, EINVAL, ENOSYS\n            raise\n",
            "        pass\n",
            ids(_WRITING, "a_failing_call_leaves_the_old_file_and_no_rest"),
        ),
        cut(
            "the position is read back",
            "min(os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size)",
            "os.fstat(descriptor).st_size",
            ids(_WRITING, "a_write_that_claims_more_than_it_stored_is_found"),
        ),
        cut(
            "the size is read back",
            "min(os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size)",
            "os.lseek(descriptor, 0, os.SEEK_CUR)",
            ids(_IO, "a_file_that_shrank_meanwhile_does_not_get_the_name"),
        ),
        cut(
            "the size is compared with what was announced",
            " or (size is not None and size != written)",
            "",
            ids(_IO, "another_size_than_announced_is_an_error"),
        ),
        cut(
            "a half-written temporary file is removed",
            "            temporary.unlink()\n",
            "            pass\n",
            ids(_IO, "a_failing_source_leaves_the_old_file"),
        ),
        cut(
            "short writes are continued",
            "    while done < len(view):",
            "    if done < len(view):",
            ids(_IO, "write_all_continues_and_counts"),
        ),
        cut(
            "O_NOFOLLOW of every file of a run",
            "flags | os.O_NOFOLLOW | os.O_NONBLOCK",
            "flags | os.O_NONBLOCK",
            ids(_IO, "only_regular_files_are_read", "a_line_is_not_appended_through_a_link"),
        ),
        cut(
            "O_NONBLOCK of every file of a run",
            "os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666",
            "os.O_NOFOLLOW | os.O_CLOEXEC, 0o666",
            ids(_IO, "no_file_is_waited_for"),
        ),
        cut(
            "only regular files are opened",
            "    if not stat.S_ISREG(os.fstat(descriptor).st_mode):",
            "    if False:",
            ids(_IO, "only_regular_files_are_read"),
        ),
        cut(
            "a folder is no link",
            "path.lstat().st_mode",
            "path.stat().st_mode",
            ids("architecture/test_security", "a_folder_that_leads_elsewhere_is_neither_read_nor_written"),
        ),
        cut(
            "a line after a torn one starts afresh",
            '            line = b"\\n" + line\n',
            "            pass\n",
            ids(_IO, "a_line_after_a_torn_one_starts_afresh"),
        ),
        cut(
            "temporary files of the living stay",
            "        if pid != os.getpid() and alive(pid):\n            continue\n",
            "",
            ids(_IO, "stale_temporaries_go_and_those_of_the_living_stay"),
        ),
    ),
    *of(
        "andrea_engine/run/checkpoint.py",
        cut(
            "free space is looked at first",
            "        if free < total + FREE_SPACE_MARGIN:\n",
            "        if False:\n",
            ids(_WRITING, "too_little_space_is_seen_before_anything_is_written"),
        ),
        cut(
            "the size is announced",
            "chunks(), size=total, progress",
            "chunks(), progress",
            _ORDER,
        ),
        cut(
            "digest check on load",
            "digest_problem(file.path, digest) or ",
            "",
            ids(_READING, "one_flipped_bit_is_always_found"),
        ),
        cut(
            "numbers are looked at on load",
            " or deep(file.path)\n",
            "\n",
            ids(_READING, "content_problems_are_passed_over_with_their_reason"),
        ),
        cut(
            "a file of another model is refused",
            "        if is_of_another_model(file):\n",
            "        if False:\n",
            ids(_READING, "a_file_of_another_model_is_never_passed_over"),
        ),
        cut(
            "size against header",
            "    if size != checkpoint_bytes(count):\n",
            "    if False:\n",
            ids(_READING, "every_truncation_is_refused_and_passed_over"),
        ),
        cut(
            "step against name",
            "    if header_step != step:\n",
            "    if False:\n",
            ids(_READING, "name_against_header"),
        ),
    ),
    *of(
        "andrea_engine/run/loss_record.py",
        cut(
            "fsync of the journal",
            "                os.fsync(self._journal)\n",
            "                pass\n",
            ids(_RECORD, "a_commit_is_durable_in_this_order"),
        ),
        cut(
            "what waits in memory is written before the journal is called durable",
            "            error = self._flush()\n",
            "            error = None\n",
            ids("run/test_loss_record_disk", "a_checkpoint_is_not_begun_while_its_entries_are_only_in_memory"),
        ),
        cut(
            "fsync of the record",
            "                raise\n            os.fsync(descriptor)\n",
            "                raise\n",
            ids(_RECORD, "a_commit_is_durable_in_this_order"),
        ),
        cut(
            "the record is durable before the journal is shortened",
            "            self._append_to_record(ready)\n"
            "            # From here on they are committed, whether or not the journal can be shortened.\n"
            "            self._pending = [e for e in self._pending if e.step > step]\n"
            "            self._replace_journal(self._pending)\n",
            "            self._pending = [e for e in self._pending if e.step > step]\n"
            "            self._replace_journal(self._pending)\n"
            "            self._append_to_record(ready)\n",
            ids(_RECORD, "a_commit_is_durable_in_this_order"),
        ),
        cut(
            "fsync of the new journal",
            "        os.fsync(journal)  # last",
            "        # last",
            ids(_RECORD, "a_commit_is_durable_in_this_order"),
        ),
        cut(
            "fsync of the directory with the new journal",
            "        fsync_directory(self.directory.path)\n",
            "",
            ids(_RECORD, "a_commit_is_durable_in_this_order"),
        ),
        cut(
            "a failed commit leaves the array closed",
            "                    write_all_at(descriptor, CLOSING, self._end)\n",
            "                    pass\n",
            ids("run/test_loss_record_disk", "a_commit_on_a_full_disk_leaves_strict_json_and_is_made_up_for"),
        ),
        cut(
            "fsync of a record that was closed again",
            "        os.ftruncate(descriptor, end + len(CLOSING))\n        os.fsync(descriptor)\n",
            "        os.ftruncate(descriptor, end + len(CLOSING))\n",
            ids(_DURABLE, "a_record_that_is_closed_again"),
        ),
        cut(
            "a torn entry is kept aside",
            "            aside = _keep_torn(directory, end, tail)\n",
            '            aside = directory.archive / "torn"\n',
            ids(_RECORD, "a_torn_entry_is_kept_aside"),
        ),
        cut(
            "no torn entry replaces another",
            "    while os.path.lexists(aside):\n",
            "    while False:\n",
            ids("run/test_repair", "a_second_torn_end_at_the_same_place_does_not_replace_the_first"),
        ),
        cut(
            "damage is refused",
            "        if damage.lines and not accept_damage:\n",
            "        if False:\n",
            ids(_RECORD, "damage_in_the_middle_is_refused_unless_accepted"),
        ),
        cut(
            "the lock in append",
            "        with self._lock:\n            self._pending.append(entry)\n            self._unwritten",
            "        if True:\n            self._pending.append(entry)\n            self._unwritten",
            ids(_DURABLE, "a_step_that_ends_during_a_commit_is_not_lost"),
        ),
        cut(
            "the lock in commit",
            "        with self._lock:\n            ready",
            "        if True:\n            ready",
            ids(_DURABLE, "a_step_that_ends_during_a_commit_is_not_lost"),
        ),
        cut(
            "the lock in sync_journal",
            "        with self._lock:\n            error",
            "        if True:\n            error",
            ids(_DURABLE, "the_journal_is_not_touched_while_a_step_is_written"),
        ),
        cut(
            "the lock in close",
            "        with self._lock:\n            self._flush()\n            if",
            "        if True:\n            self._flush()\n            if",
            ids(_DURABLE, "the_journal_is_not_touched_while_a_step_is_written"),
        ),
    ),
    *of(
        "andrea_engine/run/events.py",
        cut(
            "saves that were asked for are pinned",
            ' or (event.kind == "save_durable" and event.facts.get("pinned") is True)',
            "",
            ids("run/test_events", "pins_and_digests_follow_the_last_word"),
        ),
        cut(
            "a log that cannot be written never stops training",
            "        except OSError as error:\n            self.problem",
            "        except ZeroDivisionError as error:\n            self.problem",
            ids("run/test_events", "a_log_that_cannot_be_written_never_raises"),
        ),
    ),
    *of(
        "andrea_engine/run/retention.py",
        cut(
            "never fewer than two",
            "max(keep_last, MINIMUM_VALID)",
            "keep_last",
            ids("run/test_retention", "fewer_than_two_are_never_left"),
        ),
        cut(
            "pins",
            " and step not in pinned",
            "",
            ids("run/test_retention", "the_documented_example"),
        ),
        cut(
            "multiples",
            " and not (keep_every and step % keep_every == 0)",
            "",
            ids("run/test_retention", "the_documented_example"),
        ),
    ),
    *of(
        "andrea_engine/run/state.py",
        cut(
            "an unreadable file is kept",
            "                path.rename(target)\n",
            "                path.unlink()\n",
            ids("run/test_state", "a_bad_file_is_kept_and_none_is_overwritten"),
        ),
        cut(
            "no kept file replaces another",
            "        if not os.path.lexists(target):\n",
            "        if True:\n",
            ids("run/test_state", "a_bad_file_is_kept_and_none_is_overwritten"),
        ),
    ),
)

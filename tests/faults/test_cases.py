"""The thirty cases of people who do this job, and the tests that prove that ours does better.

A case is what went wrong for somebody, from public reports; its trial is that event on our product. Where a trial has
several sides, each has its test. `tests/faults/README.md` has the same for the rows of the failure matrix.
"""

from __future__ import annotations

import re

from tests.faults.collected import node_ids


def _ids(path: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{path}.py::test_{name}" for name in names)


CASES: dict[str, tuple[str, ...]] = {
    # Training, stopping, resuming
    "C01 moments dropped at a resume": (
        *_ids("train/test_engine_resume", "stopped_and_resumed_as_another_process", "stopped_at_a_random_step"),
        *_ids("train/test_engine_damage", "numbers_that_cannot_be_trained_from_are_passed_over"),
        *_ids("train/test_checkpointing", "moments_all_zero_are_a_problem_only_after_the_start"),
    ),
    "C02 warm-up begins again after a resume": (
        *_ids("faults/test_resume", "the_learning_rate_after_a_resume_is_that_of_the_unbroken_run"),
        *_ids("train/test_engine_resume", "stopped_again_and_again"),
        *_ids("train/test_schedule", "warm_up_multiplies_the_cosine"),
    ),
    "C03 another trajectory after a resume": (
        *_ids("train/test_engine_resume", "the_sources_were_passed_over_several_times"),
        *_ids("train/test_engine_resume", "a_changed_number_of_threads_is_said"),
        *_ids("curriculum/test_fold", "fold_of_a_prefix_and_the_rest_is_the_unbroken_run"),
    ),
    "C04 a kill during the save, and no start ever after": (
        *_ids("train/test_engine_damage", "the_previous_checkpoint_takes_the_place_of_a_damaged_one"),
        *_ids("run/test_checkpoint_reading", "every_truncation_is_refused_and_passed_over"),
        *_ids("run/test_repair", "invalid_checkpoints_make_room_for_the_newest_valid_one"),
    ),
    "C05 disk full, and a message about something else": (
        *_ids("train/test_engine_disk_full", "a_full_disk_from_the_first_alarm_to_the_last_save"),
        *_ids("run/test_checkpoint_writing", "a_real_full_disk"),
    ),
    "C06 the stop signal reaches the workers too": (
        *_ids("faults/test_processes", "a_stop_for_the_whole_group"),
        *_ids("faults/test_processes", "a_stop_for_the_group_and_another_one_for_the_engine"),
        *_ids("faults/test_processes", "helpers_that_are_killed_while_a_stop_is_pending"),
    ),
    "C07 the flag is read too late": (
        *_ids("train/test_engine_signals", "signals_during_the_start_never_kill"),
        *_ids("train/test_engine_sampling", "signals_while_sampling"),
        *_ids("train/test_validation", "it_stops_when_asked"),
        *_ids("train/test_engine_signals", "zz_stopped_twice_while_a_save_is_pending_leaves_one_last_checkpoint"),
        *_ids("train/test_environment", "the_first_compiled_step_has_a_phase_of_its_own"),
    ),
    "C08 NaN is saved": (
        *_ids("train/test_engine_nonfinite", "three_steps_in_a_row_halt_with_the_last_good_checkpoint_pinned"),
        *_ids("train/test_engine_nonfinite", "weights_that_are_not_finite_are_never_saved"),
        *_ids("train/test_engine_damage", "numbers_that_cannot_be_trained_from_are_passed_over"),
        *_ids("run/test_loss_entry", "a_number_that_is_not_finite_is_null_and_named"),
    ),
    "C09 text order, and a keep rule that deletes everything": (
        *_ids("faults/test_processes", "a_name_of_many_digits_does_not_confuse_the_order"),
        *_ids("run/test_checkpoint_reading", "the_list_is_in_the_order_of_numbers"),
        *_ids("run/test_retention", "across_a_million_numbers_count_and_not_texts", "fewer_than_two_are_never_left"),
        *_ids("run/test_config", "every_mistake_is_named"),
    ),
    "C10 two trainings in one directory": (
        *_ids("train/test_engine_damage", "of_four_engines_at_once_exactly_one_runs"),
        *_ids("train/test_engine_damage", "a_second_engine_is_refused_and_names_the_first"),
        *_ids("run/test_lock", "four_at_once_have_one_winner_and_a_kill_frees_the_lock"),
    ),
    # Loss viewers
    "C11 one NaN stops the viewer": (
        *_ids("run/test_loss_entry", "every_spelling_of_a_loss", "what_is_written_is_strict_json_and_reads_back_equal"),
        *_ids("run/test_loss_reader", "losses_that_are_not_finite_are_counted_and_the_rest_is_read"),
        *_ids("feed/test_tailer", "losses_that_are_not_finite_are_counted_and_the_rest_is_drawn"),
    ),
    "C12 smoothing tied to the first value": (
        *_ids("run/test_smoothing", "it_equals_the_weighted_mean", "the_first_value_is_not_sticky"),
        *_ids("run/test_smoothing", "a_constant_stays_a_constant"),
        *_ids("feed/test_smoothing", "it_is_the_average_that_the_engine_records"),
    ),
    "C13 log axis with zero and negative values": (
        *_ids("plotting/test_chart", "log_scale_draws_the_positive_and_counts_the_rest"),
        *_ids("widgets/test_panels", "zero_and_negative_losses_on_a_logarithmic_axis"),
    ),
    "C14 a spike vanishes from the wide view": (
        *_ids("plotting/test_chart", "one_step_spike_in_200_000_shows_at_its_column_and_in_the_label"),
        *_ids("widgets/test_loss_panel", "a_spike_of_one_step_and_a_run_of_nan_among_200_000_at_80_columns"),
        *_ids("run/test_loss_reader", "two_hundred_thousand_entries_are_read_within_two_seconds"),
    ),
    "C15 steps logged again after a crash": (
        *_ids("feed/test_tailer", "steps_recorded_again_in_a_foreign_record_replace_the_old_ones"),
        *_ids("feed/test_tailer", "the_abandoned_branch_stays_visible_after_a_crash"),
        *_ids("train/test_engine_damage", "going_back_keeps_the_older_branch_in_the_record"),
        *_ids("run/test_loss_record", "no_byte_before_the_closing_bracket_changes"),
    ),
    # Terminal interface
    "C16 a shell full of mouse codes": (
        *_ids("e2e/test_living", "a_signal_ends_the_console_cleanly"),
        *_ids("e2e/test_living", "d_leaves_the_terminal_as_it_was_and_the_engine_training"),
        *_ids("e2e/test_living", "killing_the_console_leaves_the_engine_training"),
    ),
    "C17 a core burnt overnight after an SSH drop": (
        *_ids("e2e/test_living", "a_lost_terminal_ends_the_console_and_not_the_engine"),
    ),
    "C18 a model writes markup": (
        *_ids("screens/test_hostile", "markup_in_a_sample_is_text_and_not_clickable", "a_hostile_run_is_only_shown"),
        *_ids("screens/test_chart", "arms_with_hostile_names_are_only_names"),
        *_ids("screens/test_log_screen", "a_hostile_log_is_only_shown"),
    ),
    "C19 a model writes to the terminal": (
        *_ids("e2e/test_content", "no_byte_of_a_hostile_run_reaches_the_terminal"),
        *_ids("run/test_plain", "no_control_character_survives_but_newline"),
    ),
    "C20 wide characters move borders": (
        *_ids("widgets/test_rows", "fit_is_exactly_as_wide_as_asked", "wrapped_lines_fit"),
        *_ids("widgets/test_panels", "the_frame_stands_whatever_is_in_it"),
        *_ids("plotting/test_format", "signs_keep_a_look_alike_and_wide_or_combining_ones_are_replaced"),
    ),
    "C21 a small window crashes it": (
        *_ids("screens/test_hostile", "any_size_at_any_time", "a_tiny_terminal_gets_a_line_and_its_keys"),
        *_ids("e2e/test_living", "a_storm_of_sizes"),
    ),
    "C22 grey on grey without colours": (
        *_ids("e2e/test_look", "no_color_means_none"),
        *_ids("e2e/test_content", "states_without_colours", "a_locale_without_utf_8"),
        *_ids("e2e/test_lifecycle", "a_dumb_terminal_gets_the_sentence_too"),
    ),
    "C23 fewer colours inside a multiplexer": (
        *_ids("widgets/test_themes", "states_do_not_look_alike", "the_terminals_own_colours_are_left_to_it"),
        *_ids("e2e/test_content", "states_without_colours"),
    ),
    "C24 question marks for corners": (
        *_ids("e2e/test_content", "ascii_only", "a_locale_without_utf_8", "printed_facts_in_any_encoding"),
        *_ids("e2e/test_look", "not_one_byte_beyond_ascii"),
    ),
    # GPU telemetry
    "C25 a lost GPU ends the monitor": (
        *_ids("telemetry/test_monitor", "good_then_lost_then_a_fault_then_good"),
        *_ids("telemetry/test_helper", "a_fault_inside_the_library_ends_the_helper_only"),
        *_ids("widgets/test_power_panel", "a_lost_device_keeps_its_last_values_with_their_age"),
    ),
    "C26 one card without power readings fails all": (
        *_ids("telemetry/test_monitor", "one_card_without_power_readings"),
        *_ids("telemetry/test_energy", "a_reading_that_is_missing_makes_the_sum_incomplete"),
    ),
    "C27 MIG": (
        *_ids("telemetry/test_monitor", "a_divided_board_shows_its_instances_and_its_power_is_nobodys"),
        *_ids("widgets/test_power_panel", "a_divided_board"),
    ),
    "C28 a driver update under a running job": (
        *_ids("telemetry/test_monitor", "a_driver_update_under_a_running_job"),
        *_ids("widgets/test_power_panel", "a_driver_that_went_away_is_told_once"),
    ),
    # Metrics, bandit, files
    "C29 scores of odd texts": (
        *_ids("coherence/test_metrics", "blank_text_scores_nothing", "short_text_is_not_called_varied"),
        *_ids("coherence/test_metrics", "a_loop_is_found_in_every_script"),
        *_ids("coherence/test_metrics", "fluent_text_without_spaces_passes_but_for_english"),
        *_ids("coherence/test_metrics", "every_axis_stays_in_its_range_and_scoring_is_deterministic"),
    ),
    "C30 one NaN reward captures the choice": (
        *_ids("curriculum/test_curriculum", "bad_losses_never_capture_the_choice"),
        *_ids("curriculum/test_bandit", "a_bad_loss_is_counted_and_moves_nothing"),
        *_ids("curriculum/test_zombies", "an_arm_without_a_source_is_named_listed_and_powerless"),
    ),
}


def test_all_thirty_cases_are_there() -> None:
    assert [name[:3] for name in CASES] == [f"C{number:02d}" for number in range(1, 31)]
    assert all(re.fullmatch(r"C\d\d \S.*", name) for name in CASES)


def test_every_case_has_tests_that_exist() -> None:
    assert [name for name, tests in CASES.items() if not tests] == []
    missing = {test for tests in CASES.values() for test in tests} - node_ids()
    assert missing == set()

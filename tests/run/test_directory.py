"""Names inside a run directory, and the runs of the original."""

from __future__ import annotations

from pathlib import Path

from andrea_engine.run.directory import RunDirectory


def test_the_documented_names(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "120m")
    names = [
        p.relative_to(run.path).as_posix()
        for p in (
            run.config,
            run.resolved,
            run.tokenizer,
            run.loss,
            run.journal,
            run.samples,
            run.state,
            run.events,
            run.heartbeat,
            run.lock,
            run.log,
            run.pivot_intent,
            run.archive,
        )
    ]
    assert names == [
        "run.toml",
        "run.lock.json",
        "harris_segments.json",
        ".loss.json",
        ".loss.journal.jsonl",
        ".samples.json",
        ".state.json",
        "events.jsonl",
        "engine.json",
        "engine.lock",
        "engine.log",
        "pivot.json",
        "archive",
    ]
    assert run.name == "120m"


def test_records_of_the_original_are_found(run: RunDirectory) -> None:
    assert run.loss_record() == run.loss
    named = run.path / "andrea120m.loss.json"
    named.write_text("[]")
    assert run.is_foreign_run()
    assert run.loss_record() == named
    (run.path / "other.loss.json").write_text("[]")
    assert run.loss_record() == run.loss  # which of the two cannot be known
    run.loss.write_text("[]")
    named.unlink()
    assert run.loss_record() == run.loss
    (run.path / "andrea120m.samples.json").write_text("[]")
    assert run.sample_record().name == "andrea120m.samples.json"
    run.config.write_text("")
    assert not run.is_foreign_run()


def test_pivots_are_counted_from_the_archives_they_completed(run: RunDirectory) -> None:
    assert run.policy_generation() == 0
    names = ["pivot-0001-step-112700", "pivot-0012-step-000200", "pivot-0013-step-000300"]
    for name in (*names, "pivot-x-step-000001", "pivot-0099-step-000001.tmp", "pivot-0099-step-000001\n", "notes"):
        (run.archive / name).mkdir(parents=True)
        if name != names[-1]:
            (run.archive / name / "receipt.json").write_text("{}")
    assert run.archives() == [run.archive / name for name in names[:2]]
    assert run.half_done_archives() == [run.archive / names[2]]
    assert run.policy_generation() == 12

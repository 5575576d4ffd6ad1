"""How far a run is can be seen while it lasts, after an interruption, and after its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from nwsim.exceptions import ParameterError, StoreError
from nwsim.study import PrecisionTarget, load_study, run_study
from nwsim.study.executors import InlineExecutor
from nwsim.study.locks import LOCK, is_locked, locked
from nwsim.study.precision import PILOT
from nwsim.study.results import results_folder
from nwsim.study.standing import standing_of
from tests.study.toys import InterruptedExecutor, rewrite, write_study

TARGET = PrecisionTarget(0.2, ("noise",))


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return write_study(tmp_path / "studies")


def test_a_run_from_before_its_beginning_to_its_end(toy: Path, tmp_path: Path) -> None:
    study, folder = load_study(toy), tmp_path / "toy"
    now = standing_of(study, "quick", folder)
    assert now.text == "60 replicates planned, no checkpoint, no tables yet"
    with pytest.raises(KeyboardInterrupt):
        run_study(study, out=tmp_path, executor=lambda: InterruptedExecutor(3), block_size=5)
    now = standing_of(study, "quick", folder)
    assert now.text == "15 of 60 replicates finished, 0 failures, no tables yet"
    run_study(study, out=tmp_path)
    now = standing_of(study, "quick", folder)
    assert now.text == "60 of 60 replicates finished, 0 failures, tables written"
    assert standing_of(study, "quick", folder, n_sim=15).text.startswith("60 of 90 replicates")


def test_a_run_with_a_target(toy: Path, tmp_path: Path) -> None:
    study, folder = load_study(toy), tmp_path / "toy"

    def text() -> str:
        return standing_of(study, "quick", folder, target=TARGET).text

    assert text() == "pilot: 120 replicates planned, no checkpoint, no tables yet"
    for blocks in (4, 10):
        with pytest.raises(KeyboardInterrupt):
            run_study(
                study,
                target=TARGET,
                out=tmp_path,
                executor=lambda left=blocks: InterruptedExecutor(left),
                block_size=10,
            )
        if blocks == 4:
            assert text() == "pilot: 40 of 120 replicates finished, 0 failures, no tables yet"
    results = run_study(study, target=TARGET, out=tmp_path)
    total = sum(results.manifest["n_sim"].values())
    assert text() == f"{total} of {total} replicates finished, 0 failures, tables written"
    (folder / PILOT).write_bytes(b"SQL")
    with pytest.raises(StoreError, match=PILOT):
        text()


def test_other_sources_are_said(toy: Path, tmp_path: Path) -> None:
    run_study(toy, target=TARGET, out=tmp_path)
    rewrite(toy, "SHIFT = 0.3", "SHIFT = 0.4")
    now = standing_of(load_study(toy), "quick", tmp_path / "toy", target=TARGET)
    assert now.part == "pilot"
    assert now.text.endswith(", made with another study_source: --replace starts over")
    run_study(toy, out=tmp_path / "plain")
    assert standing_of(load_study(toy), "quick", tmp_path / "plain" / "toy").foreign is None
    rewrite(toy, "SHIFT = 0.4", "SHIFT = 0.5")
    now = standing_of(load_study(toy), "quick", tmp_path / "plain" / "toy")
    assert now.finished == now.planned
    assert now.foreign == "study_source"


def test_who_is_at_work_is_seen(toy: Path, tmp_path: Path) -> None:
    study, folder = load_study(toy), tmp_path / "toy"
    seen: list[str] = []

    class Watched(InlineExecutor):
        def submit(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            seen.append(standing_of(study, "quick", folder).text)
            return super().submit(*args, **kwargs)

    run_study(study, out=tmp_path, executor=Watched, block_size=10)
    assert seen[0] == "0 of 60 replicates finished, 0 failures, no tables yet, running now"
    assert seen[1].startswith("10 of 60")
    assert not is_locked(folder)


def test_to_ask_costs_no_run_its_lock(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "nowhere")
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(StoreError, match="another run"), locked(tmp_path):
            pass
    assert (tmp_path / LOCK).is_file()
    assert not is_locked(tmp_path)


def test_a_number_and_a_target_exclude_each_other(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="must not both be given"):
        results_folder("toy", "quick", None, 5, TARGET.text)
    with pytest.raises(ParameterError, match="must not both be given"):
        run_study(toy, n_sim=5, target=TARGET, out=tmp_path)
    assert not (tmp_path / "toy").exists()

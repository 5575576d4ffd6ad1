"""A results folder belongs to one run, is where it was, and is whole."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from nwsim.exceptions import StoreError
from nwsim.study import load_results, run_study
from nwsim.study.checkpoint_file import CHECKPOINT
from nwsim.study.locks import locked
from tests.study.toys import snapshot, write_study


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    folder = tmp_path / "toy"
    folder.mkdir()
    with locked(folder):
        for replace in (False, True):
            with pytest.raises(StoreError, match=f"another run is at work in {folder}"):
                run_study(path, out=tmp_path, replace=replace)
    assert not (folder / CHECKPOINT).exists()
    run_study(path, out=tmp_path)
    run_study(path, out=tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_working_directory_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    (tmp_path / "other").mkdir()
    expected = run_study(write_study(tmp_path / "s"), out=tmp_path / "calm").folder
    path = write_study(tmp_path / "f", BEFORE_PLAIN=f"os.chdir({str(tmp_path / 'other')!r})")
    monkeypatch.chdir(tmp_path)
    folder = run_study(path, out="place", workers=workers).folder
    assert folder == tmp_path / "place" / "toy"
    for name, content in snapshot(folder).items():
        if name != "manifest.json":
            assert content == (expected / name).read_bytes()
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM scalars WHERE rep = 3 AND measure = 'mse'", "holds 9 values of 'mse'"),
        ("DELETE FROM scalars WHERE method = 'half' AND cell = 2", "of method 'half'"),
        ("DELETE FROM replicates WHERE rep = 3", "holds 10 values of"),
        ("DROP TABLE scalars", "lacks its table 'scalars'"),
        ("DROP TABLE identity", "lacks its table 'identity'"),
    ],
)
def test_a_checkpoint_that_lacks_something_is_refused(
    tmp_path: Path, statement: str, named: str
) -> None:
    path = write_study(tmp_path / "s")
    checkpoint = run_study(path, out=tmp_path).folder / CHECKPOINT
    connection = sqlite3.connect(checkpoint)
    with connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(StoreError, match=named) as caught:
        run_study(path, out=tmp_path)
    assert str(checkpoint) in str(caught.value)
    run_study(path, out=tmp_path, replace=True)


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_in_place_of_the_checkpoint_is_named(tmp_path: Path, replace: bool) -> None:
    path = write_study(tmp_path / "s")
    checkpoint = tmp_path / "toy" / CHECKPOINT
    checkpoint.mkdir(parents=True)
    with pytest.raises(StoreError, match=str(checkpoint)):
        run_study(path, out=tmp_path, replace=replace)


def test_tables_of_another_run_are_refused(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s")
    first = run_study(path, out=tmp_path / "a").folder
    other = run_study(path, out=tmp_path / "b", n_sim=12).folder
    manifest = json.loads((first / "manifest.json").read_text())
    assert sorted(manifest["tables"]) == sorted(p.name for p in first.glob("*.csv"))
    for name in manifest["tables"]:
        content = (first / name).read_bytes()
        if content == (other / name).read_bytes():
            continue
        (first / name).write_bytes((other / name).read_bytes())
        with pytest.raises(StoreError, match=r"is not the table that manifest\.json") as caught:
            load_results(first)
        assert str(first / name) in str(caught.value)
        (first / name).unlink()
        with pytest.raises(StoreError, match=f"cannot read .*{name}"):
            load_results(first)
        (first / name).write_bytes(content)
    assert load_results(first).folder == first
    (first / "manifest.json").write_bytes((other / "manifest.json").read_bytes())
    with pytest.raises(StoreError, match="is not the table"):
        load_results(first)

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import StoreError
from nwsim.report import write_ledger
from nwsim.report.ledger import CLAIM_COLUMNS, boxes, conditions, natural


def write_claims(root: Path, study: str, rows: list[tuple[str, str, str, str]]) -> Path:
    """Write rows of (claim, setting, quantity, verdict) with long numbers around them."""
    path = root / study / "claims.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CLAIM_COLUMNS)
        for claim, setting, quantity, verdict in rows:
            numbers = ["-0.5", "-0.49999999999999994", "1e-12", "-0.51", "-0.49", "0.02"]
            writer.writerow([claim, setting, quantity, *numbers, "rate", verdict])
    return sign(path)


def sign(path: Path) -> Path:
    """Write the manifest that belongs to a table."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    (path.parent / "manifest.json").write_text(json.dumps({"tables": digests}))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_rows_are_copied_and_totals_computed(tmp_path: Path) -> None:
    write_claims(
        tmp_path,
        "rate",
        [
            ("R10", "alpha=1.0", "mse", "inconclusive"),
            ("R1", "alpha=0.5;dim=1", "mse", "supported"),
            ("R1", "alpha=2.0;dim=1", "mse", "refuted"),
            ("R2", "alpha=3.0", "bias2", "supported"),
        ],
    )
    write_claims(tmp_path, "other", [("R2", "alpha=3.0", "bias2", "supported")])
    path = write_ledger(tmp_path)
    assert path == tmp_path / "ledger.csv"
    rows = read(path)
    assert [(row["claim"], row["study"], row["setting"], row["verdict"]) for row in rows] == [
        ("R1", "rate", "alpha=0.5;dim=1", "supported"),
        ("R1", "rate", "alpha=2.0;dim=1", "refuted"),
        ("R1", "rate", "all", "supported-with-conditions"),
        ("R2", "other", "alpha=3.0", "supported"),
        ("R2", "rate", "alpha=3.0", "supported"),
        ("R2", "other;rate", "all", "supported"),
        ("R10", "rate", "alpha=1.0", "inconclusive"),
        ("R10", "rate", "all", "inconclusive"),
    ]
    assert rows[0]["estimate"] == "-0.49999999999999994"
    assert rows[0]["mcse"] == "1e-12"
    assert rows[2]["conditions"] == "supported 1 of 2: alpha=0.5; refuted 1 of 2: alpha=2.0"
    assert rows[5]["conditions"] == "supported 2 of 2"
    assert rows[2]["estimate"] == ""
    assert [row["conditions"] for row in rows if row["setting"] != "all"] == [""] * 5


def test_same_bytes_twice_and_nothing_else_left(tmp_path: Path) -> None:
    write_claims(tmp_path, "rate", [("R1", "alpha=0.5", "mse", "supported")])
    first = write_ledger(tmp_path).read_bytes()
    assert write_ledger(tmp_path).read_bytes() == first
    assert b"\r" not in first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.csv", "rate"]


def test_no_study_yet_gives_the_columns_alone(tmp_path: Path) -> None:
    assert write_ledger(tmp_path).read_text().count("\n") == 1


def test_conditions_join_levels_and_tell_quantities_apart() -> None:
    def row(setting: str, quantity: str, verdict: str) -> dict[str, str]:
        return {"study": "rate", "setting": setting, "quantity": quantity, "verdict": verdict}

    rows = [
        row("alpha=0.5;dim=1;kernel=k", "mse", "supported"),
        row("alpha=1.0;dim=1;kernel=k", "mse", "supported"),
        row("alpha=0.5;dim=2;kernel=k", "mse", "refuted"),
        row("alpha=1.0;dim=2;kernel=k", "mse", "refuted"),
        row("alpha=1.0;dim=2;kernel=k", "bias2", "inconclusive"),
    ]
    assert conditions(rows) == (
        "supported 2 of 5: quantity=mse alpha=0.5|1.0 dim=1; "
        "refuted 2 of 5: quantity=mse alpha=0.5|1.0 dim=2; "
        "inconclusive 1 of 5: quantity=bias2 alpha=1.0 dim=2"
    )


@given(st.sets(st.tuples(*[st.sampled_from("abc")] * 3), min_size=1))
def test_boxes_cover_exactly_these_points(points: set[tuple[str, ...]]) -> None:
    covered = [(x, y, z) for a, b, c in boxes(sorted(points)) for x in a for y in b for z in c]
    assert len(covered) == len(set(covered))
    assert set(covered) == points


def test_order_is_natural() -> None:
    assert sorted(["R10", "R2", "E1", "R2.1"], key=natural) == ["E1", "R2", "R2.1", "R10"]


@pytest.mark.parametrize("mark", [".", "_"])
def test_a_part_of_a_claim_is_a_claim_of_its_own(tmp_path: Path, mark: str) -> None:
    part = f"R1{mark}bias2"
    write_claims(
        tmp_path,
        "rate",
        [
            ("R10", "alpha=0.5", "mse", "supported"),
            (f"R2{mark}constants", "alpha=2.0", "bias_ratio", "supported"),
            (part, "alpha=0.5", "bias2", "refuted"),
            ("R2", "alpha=3.0", "bias2", "supported"),
            ("R1", "alpha=0.5", "mse", "supported"),
        ],
    )
    rows = [row for row in read(write_ledger(tmp_path)) if row["setting"] == "all"]
    assert [(row["claim"], row["verdict"]) for row in rows] == [
        ("R1", "supported"),
        (part, "refuted"),
        ("R2", "supported"),
        (f"R2{mark}constants", "supported"),
        ("R10", "supported"),
    ]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="absent does not exist"):
        write_ledger(tmp_path / "absent")


def test_a_foreign_file_is_named_with_its_missing_columns(tmp_path: Path) -> None:
    (tmp_path / "rate").mkdir()
    (tmp_path / "rate" / "claims.csv").write_text("claim,verdict\nR1,supported\n")
    sign(tmp_path / "rate" / "claims.csv")
    with pytest.raises(StoreError, match=r"rate.claims.csv lacks the columns setting, quantity"):
        write_ledger(tmp_path)
    assert not (tmp_path / "ledger.csv").exists()


def test_a_cut_off_row_is_refused(tmp_path: Path) -> None:
    path = write_claims(tmp_path, "rate", [("R1", "alpha=0.5", "mse", "supported")])
    path.write_text(path.read_text()[:-12])
    sign(path)
    with pytest.raises(StoreError, match="wrong length"):
        write_ledger(tmp_path)


def test_tables_of_two_runs_and_edited_ones_are_refused(tmp_path: Path) -> None:
    path = write_claims(tmp_path, "rate", [("R1", "alpha=0.5", "mse", "refuted")])
    write_ledger(tmp_path)
    before = (tmp_path / "ledger.csv").read_bytes()
    path.write_text(path.read_text().replace("refuted", "supported"))
    with pytest.raises(StoreError, match=r"claims.csv is not the table"):
        write_ledger(tmp_path)
    sign(path).with_name("manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="is not a manifest"):
        write_ledger(tmp_path)
    path.with_name("manifest.json").unlink()
    with pytest.raises(StoreError, match=r"manifest.json: No such file"):
        write_ledger(tmp_path)
    assert (tmp_path / "ledger.csv").read_bytes() == before

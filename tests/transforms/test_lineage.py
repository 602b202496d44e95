"""What a run reports to catalogs: the files that it reads, and the data set that it has written."""

from pathlib import Path

from apache_beam.metrics.metric import Lineage

from transforms.corpus.plan import PlanTasks, write_plan
from transforms.elements import PlannedRange, cut_ranges
from transforms.recovery import Workplace
from transforms.reports import roll_up
from transforms.testing import local_pipeline


def sources_of(files: list[str], folder: Path) -> set[str]:
    """The sources that a run over these files reports, as a catalog gets them."""
    ranges = cut_ranges([PlannedRange(file, file, 0, 0, 10) for file in files], 5)
    plan = write_plan(str(folder / "plan"), ([planned] for planned in ranges), files)
    with local_pipeline() as pipeline:
        _ = pipeline | PlanTasks(plan, Workplace(""))
    names: set[str] = Lineage.query(pipeline.result.metrics(), Lineage.SOURCE)
    return names


def test_each_file_of_a_store_or_the_hub_is_a_source_and_of_many_the_folders(
    tmp_path: Path,
) -> None:
    files = ["gs://corpus/a/1.txt", "s3://other/2.gz", "hf://datasets/org/name/3.parquet", "/x/4"]
    assert sources_of(files, tmp_path) == {
        "gcs:corpus.a/1.txt", "s3:other.2.gz", "custom:huggingface.datasets/org/name/3.parquet",
        "filesystem:localhost./x/4",
    }  # fmt: skip
    files = [f"gs://corpus/{number % 3}/{number}" for number in range(300)]
    assert sources_of(files, tmp_path) == {f"gcs:corpus.{number}/" for number in range(3)}


def test_too_many_names_are_rolled_up() -> None:
    for files, names in (
        ("/a/b/1 /a/b/2", "/a/b/1 /a/b/2"),
        ("/a/b/1 /a/b/2 /a/c/1", "/a/b/ /a/c/"),
        ("gs://b/1 gs://b/x/1 gs://b/x/y/1", "gs://b/ gs://b/x/"),
        ("gs://a/1 gs://b/1 gs://c/1", "gs://a/ gs://b/"),
        ("/1 /2 /3", "/"),
    ):
        assert roll_up(files.split(), most=2) == (*names.split(),)

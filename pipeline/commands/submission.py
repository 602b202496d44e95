"""How one knows that a job which no command waits for has ended."""

from corpusmill.dataset.manifest import SUCCESS
from pipeline.runners.engine import Submitted
from transforms.storage.file_systems import join_path


def describe_submission(output: str, submitted: Submitted, change: str = "") -> str:
    """Say how one will know that a job has ended, or that it was only translated.

    Args:
        output: the folder that it writes into.
        submitted: the job.
        change: what it does to the data set in the folder ("the text has been added"); empty if
            it makes a new one.
    """
    if submitted.dry:
        return "a dry run: the job was translated and checked, and nothing was submitted"
    success = join_path(output, SUCCESS)
    if change:
        return f"submitted; {change} once {success} changes"
    return f"submitted; the data set is complete once {success} exists"

"""The command that checks a data set, as a job."""

from corpusmill.commands.command import Command
from corpusmill.commands.verify import Verify

COMMAND = Command(Verify, "pipeline.jobs.verification:verify")

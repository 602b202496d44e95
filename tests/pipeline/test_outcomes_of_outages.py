"""How a command ends where a store does not answer, and which options of Beam's it refuses."""

import pytest

from corpusmill.console.outcomes import explain
from corpusmill.console.process import FAILURE
from corpusmill.errors import OutageError, UserError
from pipeline.outcomes import use_beam_options
from pipeline.runners.failures import explain_failure


def test_an_outage_is_no_mistake_of_the_users() -> None:
    outage = OutageError("s3://bucket", "it cannot be reached", "Check the network")
    outcome = explain(outage.about("--output s3://bucket/x"))
    assert outcome.status == FAILURE
    assert "--output s3://bucket/x: it cannot be reached. Check the network" in outcome.text


def test_an_outage_that_a_worker_meets_stays_one() -> None:
    trace = (
        "Traceback\ncorpusmill.errors.OutageError: s3://b: it is away. Wait. [while running 'X']"
    )
    explained = explain_failure(trace)
    assert isinstance(explained, OutageError)
    assert explained.args == ("s3://b", "it is away", "Wait")


def test_an_option_that_is_almost_one_of_beams_is_refused() -> None:
    with pytest.raises(UserError, match="--s3_endpoint_url"):
        use_beam_options(("--s3_endpont_url=http://x",))

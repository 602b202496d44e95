"""Special tokens of the roles that an objective asks for."""

from dataclasses import replace

import pytest

from corpusmill.errors import UserError
from corpusmill.testing import small_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile, TokenizerOptions

ROLES = {"prefix": ("<|prefix|>", "<PRE>"), "suffix": ("<|suffix|>", "<SUF>")}


def tokenizer(*tokens: str, named: tuple[str, ...] = ()) -> TokenizerFile:
    return replace(small_tokenizer(*tokens), options=TokenizerOptions(role_tokens=named))


def test_the_first_of_the_usual_names_is_taken() -> None:
    found = tokenizer("<PRE>", "<|prefix|>").with_roles(ROLES)
    first = small_tokenizer("<PRE>", "<|prefix|>").vocab_size
    assert found.special.find("prefix") is not None
    assert dict(found.special.roles).keys() == {"prefix"}
    assert found.special.find("suffix") is None
    assert found.special.find("prefix") in found.special.all_ids
    assert found.special.find("cls") == found.special.cls_id
    assert found.vocab_size == first
    assert tokenizer("<PRE>").with_roles({}) == tokenizer("<PRE>")


def test_a_user_may_name_the_token_of_a_role() -> None:
    found = tokenizer("<PRE>", "<|prefix|>", named=("prefix=<PRE>",)).with_roles(ROLES)
    plain = tokenizer("<PRE>").with_roles(ROLES)
    assert found.special.find("prefix") == plain.special.find("prefix")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("middle=<MID>", "the objective does not ask for this role. Give one of prefix, suffix"),
        ("prefix=<nothing>", "has no special token of this name"),
        ("prefix=the", "has no special token of this name"),
    ],
)
def test_other_roles_and_tokens_are_refused(named: str, message: str) -> None:
    with pytest.raises(UserError, match=f"--role-tokens {named}: .*{message}"):
        tokenizer("<PRE>", named=(named,)).with_roles(ROLES)


@pytest.mark.parametrize("pair", ["", "prefix", "=<PRE>", "prefix="])
def test_what_is_not_a_pair_is_refused(pair: str) -> None:
    with pytest.raises(UserError, match="not of the form role=token"):
        TokenizerOptions(role_tokens=(pair,))


def test_a_missing_token_is_named_by_its_role() -> None:
    found = tokenizer("<PRE>").with_roles(ROLES)
    with pytest.raises(UserError, match="it has no suffix token"):
        found.special.require("a.json", "prefix", "suffix")

"""A data set pushed to the Hugging Face hub: verified, and revealed by one commit.

Nothing is written into the data set's folder, and nothing is remembered on this machine. The hub
keeps the content of each file that has arrived under its digest, and its client does not send it
once more. All files get their names in a single commit, the manifest among them, so that readers
see the earlier data set or the new one, and never a mixture of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, DatasetInfo, HfApi, get_token
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

from corpusmill.dataset.card import describe
from corpusmill.dataset.manifest import CARD, MANIFEST, SUCCESS, TOKENIZER, Manifest
from corpusmill.dataset.manifest_entries import base_name
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError, count_things, first_line
from corpusmill.hub import (
    LOGIN,
    SCHEME,
    TIMEOUT_SECONDS,
    DataSetName,
    describe_error,
    error_class,
    explain_error,
    patience_of,
)
from corpusmill.location import Location, locate, scheme_of
from corpusmill.verification.check_data_set import verify

_KIND = "dataset"


class Repository:
    """The repository of a data set at one branch.

    Args:
        name: "organization/name".
        branch: None for the main branch.
        private: whether it is private, or made so; None takes it as it is, or as the hub makes it.

    Attributes:
        page: its page on the hub.

    Raises:
        UserError: there is no token, the repository exists and is public though it should be
            private or the other way round, or the hub cannot be reached.
    """

    def __init__(self, name: str, branch: str | None, private: bool | None) -> None:
        self._token = get_token()
        self._api, self._name = HfApi(token=self._token), name
        self._branch, self._private = branch, private
        self._patience = patience_of(self._api.endpoint)
        self.page = f"{self._api.endpoint}/datasets/{name}"
        self._tokens = f"Make one at {self._api.endpoint}/settings/tokens, and push {LOGIN}"
        if self._token is None:
            raise UserError(name, "pushing needs a token that may write", self._tokens)
        with self._explain():
            self._state = self._patience(self._look_up)()
        if self._state and private not in {None, self.is_private}:
            cause = f"it exists, and is {'private' if self.is_private else 'public'}"
            cure = "Change its visibility in its settings on the hub, or leave the option out"
            raise UserError(name, cause, cure)

    @property
    def is_private(self) -> bool:
        """Whether others cannot see it."""
        return bool(self._state and self._state.private)

    def replace(self, contents: Mapping[str, Path | bytes], message: str) -> str:
        """Send files, and make them the data set in one commit.

        The repository and the branch are created where they do not exist. Files of the data set
        that was there before are removed unless they are among the new ones.

        Args:
            contents: the path or the bytes of each file, by its name.
            message: of the commit.

        Returns:
            The commit; the current one where nothing differs.

        Raises:
            UserError: the token may not write, somebody else has pushed meanwhile, or the hub
                cannot be reached or left out a file.
        """
        with self._explain():
            self._create()
            # Perhaps only the answer to the commit was lost: then nothing differs the next time.
            commit = self._patience(self._commit)(contents, message)
            sizes = self._folder(commit).list()
        for name, content in contents.items():
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            if sizes.get(name) != size:
                cause = f"the hub did not take {name} as it was sent"
                raise UserError(self._name, cause, "Look for a .gitignore in it, and push again")
        return commit

    def _create(self) -> None:
        if self._state is None:
            self._patience(self._api.create_repo)(
                self._name, repo_type=_KIND, private=self._private, exist_ok=True
            )
        if self._branch:
            self._patience(self._api.create_branch)(
                self._name, branch=self._branch, repo_type=_KIND, exist_ok=True
            )

    def _commit(self, contents: Mapping[str, Path | bytes], message: str) -> str:
        self._state = self._look_up()
        assert self._state  # noqa: S101  it was created
        present = {sibling.rfilename for sibling in self._state.siblings or ()}
        stale = (self._listed(self._state.sha) if MANIFEST in present else set()) & present
        made = self._api.create_commit(
            self._name,
            [
                *(CommitOperationDelete(name) for name in sorted(stale - contents.keys())),
                *(CommitOperationAdd(name, content) for name, content in contents.items()),
            ],
            commit_message=message,
            repo_type=_KIND,
            revision=self._branch,
            parent_commit=self._state.sha,
        )
        return str(made.oid)

    def _look_up(self) -> DatasetInfo | None:
        """Ask the hub for the branch, or for the main one from which it will be made."""
        for revision in dict.fromkeys([self._branch, None]):
            try:
                return self._api.dataset_info(
                    self._name, revision=revision, timeout=TIMEOUT_SECONDS
                )
            except (RepositoryNotFoundError, RevisionNotFoundError):
                continue
        return None

    def _listed(self, commit: str | None) -> set[str]:
        """The names of the files of the data set that a commit holds, if it holds one."""
        folder = self._folder(str(commit))
        try:
            manifest = decode(folder.read(MANIFEST), str(folder))
            return {MANIFEST, SUCCESS, *manifest.entries, *manifest.copies}
        except UserError:  # it is not a manifest of ours
            return set()

    def _folder(self, commit: str) -> Location:
        return locate(DataSetName(self._name, commit, "").url, {"token": self._token})

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Turn the errors of the hub's client into a user's error."""
        try:
            yield
        except UserError:
            raise
        # Its transport depends on its version, and has errors of its own.
        except Exception as error:
            raise error_class(error)(self._name, *self._cause_and_cure(error)) from error

    def _cause_and_cure(self, error: Exception) -> tuple[str, str]:
        if isinstance(error, HFValidationError):
            return explain_error(error)
        causes: list[BaseException] = [error]
        while causes[-1].__cause__:
            causes.append(causes[-1].__cause__)
        responses = (getattr(cause, "response", None) for cause in causes)
        status = next((response.status_code for response in responses if response is not None), 0)
        match status:
            case 401:
                return "the hub does not accept the token", self._tokens
            case 403 | 404:
                return f"the token may not write there ({first_line(error)})", self._tokens
            case 412:
                return "somebody else has pushed to it meanwhile", "Push again"
            case status if 400 <= status < 500:
                return f"the hub refuses it ({first_line(error)})", "Change it, and push again"
        cure = (
            "Check the network, and push again: what the hub has already is not sent a second time"
        )
        return f"the hub cannot be reached ({describe_error(error)})", cure


@dataclass(frozen=True)
class PushedDataSet:
    """A data set on the hub.

    Attributes:
        url: opens it at the branch to which it was pushed: "hf://datasets/organization/name".
        page: its page on the hub, at the commit.
        commit: the commit that made it; an earlier one where the hub had the very same files.
        private: whether others cannot see it.
    """

    url: str
    page: str
    commit: str
    private: bool


def push(
    folder: str | Path,
    name: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    with_rejects: bool = False,
    report: Callable[[str], None] | None = None,
) -> PushedDataSet:
    """Push a data set to the Hugging Face hub, or go on with a push that was interrupted.

    The data set is verified first. A repository that does not exist is created. Of a data set that
    was pushed there before, files that are not part of the new one are removed. Endpoint and token
    are those of huggingface_hub (HF_ENDPOINT; HF_TOKEN or a login).

    Args:
        folder: the folder that a build wrote, on this machine.
        name: "organization/name", or "hf://datasets/organization/name".
        revision: the branch, which is created if needed; None for the main branch.
        private: whether a new repository is private. None leaves it to the hub, which makes it
            public unless the organization decides otherwise.
        with_rejects: whether to push rejects/, which holds text of the corpus.
        report: is called with a line of text as the push proceeds.

    Raises:
        UserError: the folder holds no complete and sound data set, the name is not valid, the token
            may not write, the repository holds other data, or the hub cannot be reached.
    """
    say = report or (lambda _: None)
    target = _parse_name(name, revision)
    if scheme_of(str(folder)) is not None:
        raise UserError(str(folder), "it is not on this machine", "Copy it here, and push the copy")
    source, manifest = open_data_set(locate(str(folder)))
    contents = _contents(source, manifest, with_rejects)
    repository = Repository(target.data_set, target.revision, private)
    say(f"Verifying {source}")
    _check_sound(source, contents.keys())
    say(f"Pushing {count_things(len(contents), 'file')} to {repository.page}")
    commit = repository.replace(contents, f"Push {manifest.objective.name} examples")
    return PushedDataSet(
        target.url, f"{repository.page}/tree/{commit}", commit, repository.is_private
    )


def _parse_name(name: str, revision: str | None) -> DataSetName:
    """Parse the name of the data set on the hub.

    Raises:
        UserError: it is not one, or has a revision besides the given one.
    """
    parsed = DataSetName.parse(name if name.startswith(SCHEME) else f"{SCHEME}datasets/{name}")
    if parsed is None or parsed.path or (parsed.revision and revision):
        cause = "it is not the name of a data set on the hub"
        raise UserError(name, cause, "Write organization/name")
    return parsed._replace(revision=revision or parsed.revision)


def _contents(source: Location, manifest: Manifest, with_rejects: bool) -> dict[str, Path | bytes]:
    """The files to push. Without rejects, those that list the rejects are written anew."""
    root = source.local_path("")
    assert root is not None  # noqa: S101  it is not at a URL
    written: dict[str, bytes] = {}
    kept = tuple(file for file in manifest.files if not base_name(file.file).startswith("rejects/"))
    if kept != manifest.files and not with_rejects:
        folder = manifest.tokenizer.file.removesuffix(TOKENIZER)
        described = describe(replace(manifest, files=kept), {}, folder)
        written = {f"{folder}{CARD}": described[CARD], MANIFEST: described[MANIFEST]}
        manifest = decode(described[MANIFEST], str(source))
    names = (*manifest.entries, MANIFEST, SUCCESS)
    contents: dict[str, Path | bytes] = {name: Path(root, name) for name in names} | written
    return contents | {name: contents[entry.file] for name, entry in manifest.copies.items()}


def _check_sound(source: Location, names: Collection[str]) -> None:
    """Refuse a data set of which a file that would be pushed is damaged.

    Raises:
        UserError: a file is missing or differs from the manifest.
    """
    problems = [problem for problem in verify(source) if problem.file in names]
    if problems:
        others = count_things(len(problems) - 1, "more problem")
        more = f" (and {others})" if len(problems) > 1 else ""
        cause = f"the data set is damaged: {problems[0]}{more}"
        raise UserError(str(source), cause, "Copy or build the data set again")

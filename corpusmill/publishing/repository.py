"""The repository of a data set on the Hugging Face hub, at one branch, for writing."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    DatasetInfo,
    HfApi,
    get_token,
)
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.storage import UrlFolder
from corpusmill.errors import UserError, first_line
from corpusmill.hub import LOGIN, TIMEOUT_SECONDS, DataSetName, describe_error, explain_error

_KIND = "dataset"
# Files that are uploaded before the next ones are begun. Each group is finished on the hub, so that
# a push that is started again need not send it once more.
_FILES_AT_A_TIME = 32


@dataclass(frozen=True)
class Content:
    """What a file on the hub is to hold.

    Attributes:
        source: a path on this machine, or the bytes.
        size: in bytes.
        sha256: hexadecimal digest of its bytes.
    """

    source: Path | bytes
    size: int
    sha256: str

    @classmethod
    def from_bytes(cls, data: bytes) -> "Content":
        """The content with these bytes."""
        return cls(data, len(data), hashlib.sha256(data).hexdigest())


Contents = Mapping[str, Content]


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
        self.page = f"{self._api.endpoint}/datasets/{name}"
        self._tokens = f"Make one at {self._api.endpoint}/settings/tokens, and push {LOGIN}"
        if self._token is None:
            raise UserError(name, "pushing needs a token that may write", self._tokens)
        self._state = self._look_up()
        if self._state and private not in {None, self.is_private}:
            cause = f"it exists, and is {'private' if self.is_private else 'public'}"
            cure = "Change its visibility in its settings on the hub, or leave the option out"
            raise UserError(name, cause, cure)

    @property
    def is_private(self) -> bool:
        """Whether others cannot see it."""
        return bool(self._state and self._state.private)

    def check(self, names: Collection[str], globs: Sequence[str]) -> None:
        """Refuse a repository in which files of others would seem to belong to the data set.

        Args:
            names: of the files to push.
            globs: of the names of shards, which loaders take for the data set's.

        Raises:
            UserError: it holds such a file.
        """
        foreign = self._present() - set(names) - self._listed()
        taken = sorted(file for file in foreign if any(fnmatch(file, glob) for glob in globs))
        if taken:
            cause = f"it holds {taken[0]}, which loaders would take for a file of the data set"
            cure = "Delete the file on the hub, or push to another name"
            raise UserError(self._name, cause, cure)

    def create(self) -> None:
        """Create the repository and the branch where they do not exist."""
        with self._explain():
            if self._state is None:
                self._api.create_repo(
                    self._name, repo_type=_KIND, private=self._private, exist_ok=True
                )
            if self._branch:
                self._api.create_branch(
                    self._name, branch=self._branch, repo_type=_KIND, exist_ok=True
                )
        self._state = self._look_up()

    def replace(self, contents: Contents, message: str, say: Callable[[str], None]) -> str:
        """Upload files, and make them the data set in one commit.

        Files of the data set that was there before are removed unless they are among the new ones.

        Args:
            contents: by the name of the file.
            message: of the commit.
            say: is called with a line of text as the upload proceeds.

        Returns:
            The commit; the current one where nothing differs.

        Raises:
            UserError: the token may not write, somebody else has pushed meanwhile, a file changed
                while it was pushed, or the hub cannot be reached.
        """
        stale = (self._listed() & self._present()) - contents.keys()
        additions = [CommitOperationAdd(name, one.source) for name, one in contents.items()]
        total, done = sum(content.size for content in contents.values()), 0
        with self._explain():
            for begin in range(0, len(additions), _FILES_AT_A_TIME):
                group = additions[begin : begin + _FILES_AT_A_TIME]
                self._upload(group, contents)
                done += sum(contents[addition.path_in_repo].size for addition in group)
                say(f"{done:,} of {total:,} bytes are on the hub")
            deletions = [CommitOperationDelete(name) for name in sorted(stale)]
            commit = self._commit([*deletions, *additions], message, contents)
            faults = self._find_faults(commit, contents)
        if faults:
            cause = f"the hub did not take {faults[0]} as it was sent"
            raise UserError(self._name, cause, "Look for a .gitignore in it, and push again")
        return commit

    def _upload(self, additions: Sequence[CommitOperationAdd], contents: Contents) -> None:
        """Send what the hub does not have yet; the files do not get their names."""
        self._api.preupload_lfs_files(
            self._name, additions, repo_type=_KIND, revision=self._branch, free_memory=False
        )
        for addition in additions:
            name = addition.path_in_repo
            if addition.upload_info.sha256.hex() != contents[name].sha256:
                cause = "it changed while it was pushed"
                raise UserError(name, cause, "Push again when nothing writes into its folder")

    def _commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        message: str,
        contents: Contents,
    ) -> str:
        assert self._state  # noqa: S101  it was created
        try:
            made = self._api.create_commit(
                self._name,
                operations,
                commit_message=message,
                repo_type=_KIND,
                revision=self._branch,
                parent_commit=self._state.sha,
            )
        except Exception:  # perhaps only the answer was lost
            self._state = self._look_up()
            if self._state is None or self._find_faults(str(self._state.sha), contents):
                raise
            return str(self._state.sha)
        return str(made.oid)

    def _find_faults(self, commit: str, contents: Contents) -> list[str]:
        """The files that a commit lacks or has with another size, or the seal if it differs."""
        folder = self._folder(commit)
        sizes = folder.list()
        faults = [name for name, content in contents.items() if sizes.get(name) != content.size]
        if (
            not faults
            and Content.from_bytes(folder.read(SUCCESS)).sha256 != contents[SUCCESS].sha256
        ):
            faults = [SUCCESS]
        return faults

    def _look_up(self) -> DatasetInfo | None:
        """Ask the hub for the branch, or for the main one from which it will be made."""
        with self._explain():
            for revision in dict.fromkeys([self._branch, None]):
                try:
                    return self._api.dataset_info(
                        self._name, revision=revision, timeout=TIMEOUT_SECONDS
                    )
                except (RepositoryNotFoundError, RevisionNotFoundError):
                    continue
        return None

    def _present(self) -> set[str]:
        """The names of its files."""
        siblings = (self._state.siblings or ()) if self._state else ()
        return {sibling.rfilename for sibling in siblings}

    def _listed(self) -> set[str]:
        """The names of the files of the data set that it holds, if it holds one."""
        if self._state is None or MANIFEST not in self._present():
            return set()
        folder = self._folder(str(self._state.sha))
        try:
            return {MANIFEST, SUCCESS, *decode(folder.read(MANIFEST), folder.url).entries}
        except UserError:  # it is not a manifest of ours
            return set()

    def _folder(self, commit: str) -> UrlFolder:
        return UrlFolder(DataSetName(self._name, commit, "").url, {"token": self._token})

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Turn the errors of the hub's client into a user's error."""
        try:
            yield
        except UserError:
            raise
        # Its transport depends on its version, and has errors of its own.
        except Exception as error:
            raise UserError(self._name, *self._cause_and_cure(error)) from error

    def _cause_and_cure(self, error: Exception) -> tuple[str, str]:
        if isinstance(error, HFValidationError):
            return explain_error(error)
        causes: list[BaseException] = [error]
        while causes[-1].__cause__:
            causes.append(causes[-1].__cause__)
        responses = (getattr(cause, "response", None) for cause in causes)
        status = next((one.status_code for one in responses if one is not None), 0)
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

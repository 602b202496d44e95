"""A data set pushed to the Hugging Face hub: uploaded file by file, revealed by one commit.

Nothing is written into the data set's folder, and nothing is remembered on this machine. The hub
keeps the content of each file that has arrived under its digest, so a push that is started again
sends only the rest. All files get their names in a single commit, so that readers see the earlier
data set or the new one, and never a mixture of them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from corpusmill.dataset.card import render_card
from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, Manifest
from corpusmill.dataset.manifest_json import encode, seal
from corpusmill.dataset.shards import open_data_set
from corpusmill.dataset.storage import Folder, UrlFolder, is_url
from corpusmill.dataset.verify import verify
from corpusmill.errors import UserError
from corpusmill.hub import SCHEME, DataSetName
from corpusmill.publishing.repository import Content, Repository

# The most files that the hub takes in one folder.
_MOST_FILES = 10_000


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
    if is_url(str(folder)):
        raise UserError(str(folder), "it is not on this machine", "Copy it here, and push the copy")
    source, manifest = open_data_set(UrlFolder(str(folder)))
    contents = _contents(source, manifest, with_rejects)
    repository = Repository(target.data_set, target.revision, private)
    repository.check(contents.keys(), [manifest.glob(split) for split in manifest.splits])
    say(f"Verifying {source.url}")
    _check_sound(source, contents.keys())
    repository.create()
    say(f"Pushing {len(contents)} files to {repository.page}")
    commit = repository.replace(contents, f"Push {manifest.objective.name} examples", say)
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


def _contents(source: Folder, manifest: Manifest, with_rejects: bool) -> dict[str, Content]:
    """The files to push. Without rejects, those that list the rejects are written anew."""
    root = source.local_path("")
    assert root is not None  # noqa: S101  it is not at a URL
    written: dict[str, bytes] = {}
    if REJECTS in manifest.entries and not with_rejects:
        described = {REJECTS, CARD}
        kept = tuple(entry for entry in manifest.files if entry.file not in described)
        manifest = replace(manifest, files=kept)
        written = {CARD: render_card(manifest)}
        manifest = manifest.with_files(written)
        written[MANIFEST] = encode(manifest)
        written[SUCCESS] = seal(written[MANIFEST])
    if len(manifest.entries) + 2 > _MOST_FILES:
        cause = f"it has {len(manifest.entries):,} files; the hub takes {_MOST_FILES:,} in a folder"
        raise UserError(source.url, cause, "Build it with a smaller --num-shards")
    contents = {
        name: Content(root / name, entry.bytes, entry.sha256)
        for name, entry in manifest.entries.items()
    }
    for name in (MANIFEST, SUCCESS):
        contents[name] = Content.from_bytes((root / name).read_bytes())
    return contents | {name: Content.from_bytes(data) for name, data in written.items()}


def _check_sound(source: Folder, names: Collection[str]) -> None:
    """Refuse a data set of which a file that would be pushed is damaged.

    Raises:
        UserError: a file is missing or differs from the manifest.
    """
    problems = [problem for problem in verify(source) if problem.file in names]
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        cause = f"the data set is damaged: {problems[0]}{more}"
        raise UserError(source.url, cause, "Copy or build the data set again")

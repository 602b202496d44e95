"""The command chat gives the same conversations for the same records in any container."""

import json
import re
from itertools import pairwise
from pathlib import Path

from tests.tools import jobs
from tests.tools.chat_data import write_tokenizer
from tests.tools.chat_families import FAMILIES
from tests.tools.containers import CONTAINERS, LAYOUTS, Record

# All that a record holds reaches the text.
_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m | tojson) + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_six_layouts_in_all_containers(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer", FAMILIES["chatml"])
    (tmp_path / "t.jinja").write_text(_TEMPLATE)
    conversations, shards = {}, {}
    for container, (end, _, write) in CONTAINERS.items():
        corpus, output = tmp_path / f"{container}.in", tmp_path / f"{container}.out"
        corpus.mkdir()
        for layout, records in LAYOUTS.items():
            (corpus / f"{layout}.{end}").write_bytes(write(_number(records * 3)))
        jobs.run_here(
            "chat", "--input", corpus, "--tokenizer", tokenizer, "--output", output,
            "--chat-template", tmp_path / "t.jinja", "--max-seq-length", "1024",
            "--num-shards", "1",
        )  # fmt: skip
        conversations[container] = sorted(
            (tuple(row["input_ids"][begin:end]), tuple(row["loss_mask"][begin:end]))
            for row in jobs.rows_of(output)
            for begin, end in pairwise(row["cu_seqlens"])
        )
        digests = jobs.digests(output)
        shards[container] = [digests[name] for name in sorted(digests) if "/train-" in name]
    expected = conversations["JSON lines"]
    assert len(expected) == 3 * sum(map(len, LAYOUTS.values()))
    assert [name for name, others in conversations.items() if others != expected] == []
    # Rows are in the order of a hash of where each record stands: the number of its row in all
    # tables, and the byte at which it begins in JSON.
    tables = {name: shards[name] for name in shards if not name.startswith("JSON")}
    assert [name for name, digests in tables.items() if digests != shards["Parquet"]] == []
    assert shards["Parquet"]


def _number(records: list[Record]) -> list[Record]:
    """Make the records differ."""
    words = re.compile('"(What|Why|Add|See)')
    return [
        json.loads(words.sub(rf'"\1 {number}', json.dumps(record)))
        for number, record in enumerate(records)
    ]

"""Corpora of real text, read as they should be and as they should not."""

import json
from itertools import cycle, islice
from pathlib import Path

from tests.conftest import CHECKOUT

CHINESE = (
    "清晨的河面上漂着一层薄雾，渔夫还没有起床。",
    "桥的那一边有一座旧灯塔，灯光每十秒钟闪烁两次。",
    "他问守塔的老人：“你一个人住在这里，不觉得寂寞吗？”",
    "老人摇了摇头，把茶杯放在窗台上，望着远处的船。",
    "许多年以前，这座小镇靠卖盐和干鱼为生。",
    "后来铁路修到了山的另一面，商人们就很少再来了。",
    "孩子们放学以后常常在沙滩上捡贝壳，一直玩到天黑。",
    "学校的图书馆里只有三百多本书，其中一半是关于航海的。",
    "春天的雨下得很慢，屋顶上的瓦片被洗得发亮。",
    "每到节日，家家户户都会做一种甜的米糕送给邻居。",
    "没有人知道第一位守塔人叫什么名字，只知道他来自北方。",
    "夜里风大的时候，可以听见海浪拍打岩石的声音！",
    "医生说他的病并不严重，只要多休息几天就会好起来。",
    "冬天到来之前，船都要拖到岸上重新刷一遍油漆。",
)


def paragraphs(sample: Path) -> list[str]:
    """The documents of a text in WikiText's layout, each as one paragraph of running text."""
    texts, lines = [], list[str]()
    for line in [*sample.read_text().splitlines(), ""]:
        text = line.strip()
        if text and not text.startswith("="):
            lines.append(text.replace(" .", ".").replace(" ,", ","))
        elif lines:
            texts.append(" ".join(lines))
            lines = []
    return texts


def write_books(sample: Path, path: Path, chosen: slice = slice(None)) -> Path:
    """Plain text with one paragraph a line, and empty lines between them."""
    path.write_text("\n\n".join(paragraphs(sample)[chosen]) + "\n")
    return path


def write_records(sample: Path, path: Path) -> Path:
    """JSON lines of running text."""
    texts = paragraphs(sample)
    chapters = [" ".join(texts[first : first + 4]) for first in range(0, len(texts), 4)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in chapters))
    return path


def write_chinese(path: Path) -> Path:
    """JSON lines of running Chinese text, without spaces."""
    with path.open("w") as stream:
        for number in range(40):
            # With these steps twelve sentences differ, and no text is another one's.
            step = (1, 3, 5, 9, 11, 13)[number % 6]
            text = "".join(islice(cycle(CHINESE), number, number + 12 * step, step))
            stream.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return path


def write_latin_1(sample: Path, path: Path) -> Path:
    """Plain text in an encoding from before Unicode, with accents in every other line."""
    lines = [
        text.replace("e", "\xe9") if n % 2 else text for n, text in enumerate(paragraphs(sample))
    ]
    path.write_bytes("\n\n".join(lines).encode("latin-1", "replace"))
    return path


def write_code(folder: Path) -> Path:
    """A program in some files, as it lies on a disk."""
    folder.mkdir()
    for path in sorted((CHECKOUT / "corpusmill" / "corpus").rglob("*.py")):
        (folder / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    return folder

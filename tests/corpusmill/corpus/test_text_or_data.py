"""Text that begins as data do, and data with faults in them: each is read as what it is."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable

import lz4.frame
import zstandard

from corpusmill.corpus.decompression import HEAD_BYTES
from corpusmill.corpus.input_formats import find_conflict, look_at
from corpusmill.errors import as_flag, spell

PROSE = "".join(
    f"The king saw {n} rivers, and the old city. He said: no more of it!\nIt rained.\n\n"
    for n in range(30)
)
COMPRESSIONS: tuple[Callable[[bytes], bytes], ...] = (
    bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress, lz4.frame.compress,
)  # fmt: skip
# Each is followed by prose, and by nothing.
BEGINNINGS: dict[str, str | bytes] = {
    "a link in quotes": '["The Old River"](https://example.org/river) is a poem of seven songs.',
    "links in quotes": '- see\n["One"](a.md), and\n["Two"](b.md)',
    "a list of links": '["The River"](a.md)\n["The King"](b.md)\n["The City"](c.md)',
    "a reference": '["river"]: https://example.org/river "A river"',
    "tasks": "[ ] Water the garden\n[x] Read the old song\n[ ] Walk",
    "tasks without words": "[ ] water\n[x] read\n[ ] run\n[x] eat",
    "tasks without a space": "[] buy bread\n[] see the king\n[] bread",
    "a stage direction": '["No," said the king, and ran.]',
    "stage directions": '["Halt!"] The king enters.\n["Who is there?"] He runs.',
    "a chorus": "[Chorus]\n[Verse 1]\nThe river runs",
    "notes": "[1] The first note.\n[2] The second note.",
    "a note in two brackets": "[[The River]] is a poem of seven songs.",
    "links of a wiki": "[[River]]\n[[King]]\nThe king saw the river.",
    "a template of a wiki": '{{"quote"|The king}} said no.',
    "an omission": '["..."] and so he went to the city.',
    "a log with objects": "\n".join(f'{{"level": "info"}} the king saw {n}' for n in range(40)),
    "a log with arrays": "\n".join(f'["info", {n}] the king saw a river' for n in range(40)),
    "a log with records at its end": "\n".join(f'[info] saw {{"river": {n}}}' for n in range(40)),
    "an example on a line": '{"text": "A blue river"}\n\nThis object is a record of the house.',
    "examples": '{"a": 1}\n{"a": 2}\nThese are two records, as the house has them.',
    "an example on many lines": '{\n  "name": "Blue"\n}\n\nThis object names a river.',
    "an example of an array": '["red", "blue"]\n\nThis array has two colours, and no more.',
    "an example of records": '[{"a": 1},\n {"a": 2}]\n\nThis array has two records in it.',
    "an empty example": "{}\n\nThis is an object without any fields.",
    "an empty array": "[]\n\nThis is an array without any elements.",
    "a request and an answer": '{"q": "a"}\nis answered by the server with\n{"a": "b"}\nand so on.',
    "a program that begins with an array":
        '["click", "keyup"].forEach(function (name) {\n  go(name);\n});',
    "a program that begins with an object":
        '{"use strict";\n  let river = new River();\n  river.run(7);\n}',
    "a list of Lisp": '["defn" river [x y]\n  (+ x y) and so on]',
    "an array of a program": '[["a", 1], ["b", 2]].map(([name, number]) => name + number);',
    "a rule of a style": '["class"] {\n  colour: blue;\n  width: the whole river;\n}',
    "a section of settings": '["river"]\nname = the old river\nwidth = seven songs',
    "a play with tabs":
        "ANNA\tHello\nBEN\tWho is there\nANNA\tIt is I\nBEN\tCome in\nANNA\tThanks\nBEN\tSit",
    "a chat with tabs":
        "anna\thello\nben\thi there\nanna\thow are you\nben\tfine, and you\nanna\tfine\nben\tbye",
    "a chat with bars": "anna|hello\nben|hi there\nanna|how are you\nben|fine\nanna|good\nben|bye",
    "a chat of two":
        "user\thello\nassistant\thi\nuser\twho are you\nassistant\ta king\nuser\tbye",
    "a chat with semicolons": "anna;hello\nben;hi\nanna;no\nben;yes\nanna;go\nben;bye",
    "Chinese verse": "床前明月光,疑是地上霜\n举头望明月,低头思故乡\n" * 4,
    "Chinese verse of three": "春,夏,秋\n山,水,云\n风,花,雪\n日,月,星\n人,心,路\n金,木,土",
    "English verse": "Roses,violets\nrivers,songs\nbread,stone\nkings,cities\nlight,fields",
    "words in pairs": "house,garden\nriver,water\nking,queen\nbread,butter\nred,blue",
    "words with tabs": "house\tHaus\nriver\tFluss\nking\tKoenig\nbread\tBrot\nsong\tLied",
    "verse with semicolons": "Rivers;songs\nbread;stone\nkings;cities\nlight;fields\nold;new",
    "verse with bars": "Rivers|songs\nbread|stone\nkings|cities\nlight|fields\nold|new",
    "a litany": "Peace,peace\nhope,hope\nlove,love\njoy,joy\nrest,rest",
    "a table of Markdown": "| river | king |\n|---|---|\n| blue | old |",
    "facts with tabs": "Title\tRiver\nAuthor\tAnna\nDate\tlate\nPlace\there\nKind\tpoem",
    "orcs": b"ORC\nAn orc is a monster, \xe9t\xe9 as they say.",
    "orcs in capitals": b"ORCS OF THE RIVER, by Ren\xe9",
    "walls": b"PAREDES DE LA CIUDAD, por Jos\xe9",
    "parents": b"PARENTS ET ENFANTS: l'\xe9cole",
    "a name": b"PAR1 est un nom, d\xe9j\xe0 vu",
    "feathers": b"FEA1 est une plume l\xe9g\xe8re",
    "an arrow": b"ARROW1 vole tr\xe8s loin",
    "an object": b"Obj 1: \xe9l\xe9ment",
    "a package": b"PK est une lettre, d\xe9j\xe0",
    "a database": b"SQLite format 3 est d\xe9crit ici",
    "a compressor": b"BZh91AY&SY est la marque de bzip2, d\xe9j\xe0",
    "a compressor in ASCII": "BZh91AY&SY is how bzip2 begins.",
    "a bitmap":
        b"BM, d\xe9j\xe0 vu: une ville et une rivi\xe8re sans fin, dit le roi des vieux jours.\x1a",
    "an executable":
        b"MZ, d\xe9j\xe0 vu: une ville et une rivi\xe8re sans fin, dit le roi des vieux jours.\x1a",
    "a letter": "From Paris the king wrote to the city.\nSubject: none",
    "WARC": "WARC/1.1 is a format of archives.",
    "PDF": "%PDF-1.7 is how a document of that kind begins.",
    "RTF": "{\\rtf is how a document of that kind begins.",
    "Git LFS": "version https://git-lfs.github.com/spec/v1 is the first line of a pointer.",
    "a dict": "{'a': 1} is a dict of Python with one key.",
    "dicts": "{'a': 1}\nis a dict, and\n{'b': 2}\nis another one, of the same kind.",
    "subtitles": "WEBVTT is a format of subtitles.",
    "an example of subtitles":
        "1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n" + "A line of prose.\n" * 20,
    "an example of CoNLL":
        "1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n\nThis is a word, and that is\nall of it.",
    "an answer to a letter": ">Are you coming?\nYes\nCertainly\nTomorrow\nMorning\nThanks\n",
    "chat as FASTQ": "@anna\nHELLO\n+1\nyes, of course\n",
    "a chat as tags": "<anna> hello\n<ben> hi there\n<feed> no\n<doc> yes",
    "a nick that is a tag": "<doc> hello there\n<svg> hi\n<html> no",
    "a text on HTML": "<html> is the first tag of a page.",
    "a text on doctypes": "<!DOCTYPE html> is what a page begins with.",
    "a text on XML": "<?xml version='1.0'?> is what XML begins with.",
    "an example of HTML":
        "<html>\n<body>Hello</body>\n</html>\n\nThis page says hello, and no more.",
    "a badge": "<svg width='9'><path d='M0'/></svg>\n\nA library for rivers and for kings.",
    "a dump": "PRAGMA foreign_keys=OFF; is a command of SQLite.",
    "a script of SQL": "-- MySQL dump is a program, and this is how it is used.",
    "lines of quotes": '"Yes," said Anna,\n"no," said Ben,\n"go," said the king.',
    "dates": "12:01\tanna\thello\n12:02\tben\thi there\n12:03\tanna\tbye",
    "verses with numbers": "1\tIn the beginning\n2\tThe river ran\n3\tThe king saw it",
    "recipes": "2,flour\n3,eggs\n1,milk\n4,bread\n5,salt",
    "an outline": "\tRiver\n\tKing\n\tSong\n\tBread\n\tCity",
    "a fenced example": '```json\n{"a": 1}\n{"a": 2}\n```',
    "a log of both kinds": '{"a": 1}\nINFO the river ran\n' * 20,
    "a session": '$ curl x\n{"a": 1}\n$ curl y\n{"b": 2}',
    "a list of Haskell": '["a", "b"] ++ rivers',
    "a table of TOML": '["a.b"]\nx = 1\ny = "river"\n[c]\nz = 2',
    "Japanese verse": "古池や,蛙飛び込む,水の音\n夏草や,兵どもが,夢の跡\n" * 4,
    "a chat in Russian": "Анна;привет\nБорис;пока\n" * 5,
    "words in two languages": '{"en": "river"} [de: Fluss] and so on\n' * 9,
    "an example of FASTQ": "@a\nACGT\n+\nIIII\nThis is a read, and no more.",
    "an example of FASTA": ">P1|A\nMKTAYIAKQRQISFVKSHFSRQ\n\nThis is a sequence of letters.",
    "an example of XML": "<?xml version='1.0'?>\n<a><b/></a>\n\nThis is XML.",
    "matter before a text": '{"title": "River"}\n\nThe king saw it, and was gone.',
    "a menu": "Soup|Bread\nRiver|Fish\nSong|Wine\nKing|Cake\nCity|Tea",
    "a proof": "{x : x > 1} is a set, and {y} is one.",
    "braces": '{"} is a strange pair of marks, says the king.',
    "a message with braces": '{"Hello"} he said, and was gone.',
}  # fmt: skip

RECORDS = [{"id": n, "text": f'The king saw {n} "rivers".\nIt rained.'} for n in range(30)]
LINES = [json.dumps(record) + "\n" for record in RECORDS]
ROWS = ["id,text\n", *(f"{n},The king saw {n} rivers\n" for n in range(30))]
TABS = [row.replace(",", "\t") for row in ROWS]
PRETTY = json.dumps(RECORDS, indent=2)
TURNS = [{"role": "user", "content": "no"}, {"role": "user", "content": "a {b}, {c}"}]
CONVERSATION = json.dumps({"messages": TURNS}) + "\n"
WORDS = "1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tking\tking\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
CUE = "1\n00:00:01,000 --> 00:00:02,500\nHello\nthere.\n\n"
# Without what `test_content` has of each format.
DATA = {
    "lines with a bad first one": ("json-lines", "# by the king\n" + "".join(LINES)),
    "lines with a bad second one": ("json-lines", LINES[0] + "not json\n" + "".join(LINES[1:])),
    "lines with a sentence":
        ("json-lines", LINES[0] + "This is a bad line.\n" + "".join(LINES[1:])),
    "lines with a torn one": ("json-lines", LINES[0] + LINES[1][:20] + "\n" + "".join(LINES[2:])),
    "lines with a tail": ("json-lines", LINES[0] + LINES[1][20:] + "".join(LINES[2:])),
    "lines with a number": ("json-lines", LINES[0] + "7\nnull\n" + "".join(LINES[2:])),
    "lines with a mark": ("json-lines", "<<<<<<< HEAD\n" + "".join(LINES)),
    "three lines, one of which is bad": ("json-lines", LINES[0] + "oops\n" + LINES[1]),
    "lines with blank ones": ("json-lines", "\n".join(LINES)),
    "lines of which one in ten is bad":
        ("json-lines", "".join("oops, a bad line\n" * (n % 12 == 3) + LINES[n] for n in range(30))),
    "lines with a long first one":
        ("json-lines", json.dumps({"text": "river " * HEAD_BYTES}) + "\n" + "".join(LINES)),
    "lines of conversations": ("json-lines", CONVERSATION * 20),
    "an array on a line with a bad first record":
        ("json", '[{"id": 0, "text": "a "b" c"}, ' + json.dumps(RECORDS)[1:]),
    "a long array on a line": ("json", json.dumps(RECORDS * 99)),
    "a damaged array": ("json", PRETTY.replace("The king saw 1 ", 'The "king" saw ', 1)),
    "a broken array": ("json", PRETTY[: len(PRETTY) // 2]),
    "objects on many lines": ("json", "\n".join(json.dumps(one, indent=1) for one in RECORDS)),
    "an object on many lines with long texts":
        ("json", json.dumps({"a": 1, "text": "river " * HEAD_BYTES}, indent=1)),
    "an object with a list": ("json-lines", json.dumps({"data": RECORDS})),
    "columns": ("json-lines", json.dumps({"text": {"0": "a", "1": "b"}})),
    "rows of which some are broken":
        ("csv", "".join(row.replace("\n", ",,\n" if "5," in row else "\n") for row in ROWS)),
    "rows with a stray quote": ("csv", "".join([*ROWS[:5], '5,"The king\n', *ROWS[6:]])),
    "few rows of which one is broken": ("csv", "".join([*ROWS[:3], "3,4,5\n", *ROWS[4:6]])),
    "rows on several lines":
        ("csv", "id,text\n" + "".join(f'{n},"The king\nsaw, it"\n' for n in range(20))),
    "rows with other names": ("csv", "river,king\n" + "".join(f"{n},Anna\n" for n in range(9))),
    "rows with names of a program": ("csv", "first_name,last_name\n" + "Anna,Lee\n" * 9),
    "rows in quotes": ("csv", '"river","king"\n' + '"Rhine","Anna"\n' * 9),
    "rows with dates": ("csv", "when;what\n" + "2026-11-29;a river\n" * 9),
    "rows in Chinese": ("csv", "标题,内容\n" + "河,国王看见了河\n" * 9),
    "rows with large names": ("csv", "ID|Text\n" + "a|The river\n" * 9),
    "tabs with quotes": ("tsv", "text\tlabel\n" + 'He said "no\tbad\n' * 9),
    "lines after a comment": ("json-lines", "INFO start\n" + "".join(LINES)),
    "lines before an end": ("json-lines", "".join(LINES) + "EOF\n"),
    "lines with NaN": ("json-lines", '{"text": "a", "x": NaN}\n' * 5),
    "lines in Chinese": ("json-lines", '{"text": "国王看见了河。"}\n' * 9),
    "objects without a space": ("json", '{"text": "a"}{"text": "b"}{"text": "c"}'),
    "HTML after a comment": ("HTML", "<!-- a page -->\n<html><body><p>a</p></body></html>"),
    "a dump": ("dump", "--\n-- PostgreSQL database dump\n--\n" + "1\tThe king\n" * 300),
}  # fmt: skip


def name_format(data: str | bytes) -> str:
    """Return how a file is read, in all compressions alike."""
    stored = data if isinstance(data, bytes) else data.encode()
    formats = set[str]()
    for compress in COMPRESSIONS:
        content = look_at(io.BytesIO(compress(stored)), "a.txt")
        if conflict := find_conflict(content, "text", is_chosen=False):
            # Each refusal says how it is read as the text that it may be.
            formats.add(
                content.format
                or conflict[0] * ("--input-format text" in spell(conflict[1], as_flag))
            )
        else:
            formats.add("text")
    [input_format] = formats
    return input_format


def test_text_that_begins_as_data_do_is_text() -> None:
    wrong = {}
    for name, beginning in BEGINNINGS.items():
        start = beginning if isinstance(beginning, bytes) else beginning.encode()
        for end in ("", "\n", f"\n\n{PROSE}"):
            if (input_format := name_format(start + end.encode())) != "text":
                wrong[name, end] = input_format
    assert not wrong


def test_data_with_faults_is_data() -> None:
    wrong = {
        name: input_format
        for name, (expected, data) in DATA.items()
        if expected not in (input_format := name_format(data))
    }
    assert not wrong

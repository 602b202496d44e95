"""A small corpus in many scripts, written for these tests.

Invisible characters are written as escapes: U+3000 ideographic space, U+00A0 and U+202F no-break
spaces, U+2028 and U+2029 line and paragraph separators (which do not end a line here), U+200C and
U+200D (non-)joiners, U+200E and U+200F marks of direction, U+FE0F variation selector.
"""

import json

DOCUMENTS = {
    "Chinese": [
        "清晨的河面上漂着一层薄雾，渔夫还没有起床。",
        "他问：“桥那边有灯吗？”没有人回答。",
        "我们在《风的故事！》里读到过这座小镇；那是很久以前的事了……",
        "第３章\u3000讲的是一只会写字的猫，共１２．５页。",
        "＝这一行以全角等号开头，它不是标题。",
        "𠮷野家的老人把药方写在𪚥字旁边。",
    ],
    "Japanese": [
        "朝の市場では、漁師たちが大きな声で笑っていた。",
        "「明日も来るよ。」と祖母は言った。",
        "カタカナのﾊﾝｶｸとひらがなの「か\u3099」を並べて書く！",
        "葛\U000e0100城という地名には異体字が使われる。",
        "本当ですか？はい、本当です。",
    ],
    "Korean": [
        "아침마다 강가에서 종이배를 띄웠다.",
        "그는 \u1112\u1161\u11ab\u1100\u1173\u11af 자모를 하나씩 적었다.",
        "배는 어디로 갔을까? 아무도 몰랐다.",
    ],
    "Arabic": [
        "في الصباح فتحت الجدة نافذة المطبخ.",
        "هل رأيت القطّةَ التي تكتب الرسائل؟",
        "قال: «نعم، رأيتها مرّتين!» ثم سكت\u200f.",
        "العدد ١٢٣٫٤ مكتوب بأرقام عربية، و\u200eABC\u200e باللاتينية.",
        "می\u200cخواهم این کتاب را بخوانم، گفت همسایه\u200cی ما.",
    ],
    "Hebrew": ["הסבתא שתתה תה חם ליד החלון.", "שָׁלוֹם, אמר הילד, ומי את\u200f?"],
    "Hindi": [
        "सुबह नदी के किनारे बच्चे पतंग उड़ा रहे थे।",
        "क्या तुमने वह चिट्ठी पढ़ी? नहीं, अभी नहीं।",
        "क्\u200dष और क्ष, दोनों रूप श्री\u00a0वर्मा ने लिखे।",
        "कुल १२३ पन्ने थे॥",
    ],
    "Thai": [
        "ตอนเช้าแม่น้ำเงียบสงบและไม่มีเรือสักลำ",
        "คุณยายถามว่า น้ำ\u200bชา ร้อนพอไหม",
        "เลขไทย ๑๒๓ กับคำว่า กำ และ ก\u0e4d\u0e32",
    ],
    "Emoji": [
        "The family 👨\u200d👩\u200d👧\u200d👦 waved at the lighthouse ❤\ufe0f 👍🏽!",
        "Flags 🇳🇴🇯🇵, keycaps 1\ufe0f\u20e3 #\ufe0f\u20e3 and a rainbow 🏳\ufe0f\u200d🌈.",
        "👩🏾\u200d🚀🧑🏻\u200d🎤😀",
    ],
    "Mixed": [
        "Naïve cafe\u0301 owners in Zu\u0308rich sell 茶 for 3,50\u202f€ and чай for 2\u00a0$.",
        "Ångström (Å, A\u030a, \u212b) met ﬁve Ωμέγα and İstanbul's ŞİŞ, straße ẞ.",
        "one\u2028two\u2029three\x0bfour\x0cfive\x85six\u001cseven stay in one line",
        "математика и 数学 and गणित and الرياضيات",
        "Tiếng Việt có dấu: Đường, phở, Nguyễn; Việt Nam.",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒹𝓇𝒶𝓌𝓈 \U0001f980\U0001f9ff ancient 𐎀𐎁 and 𓀀𓀁 too",
    ],
}  # fmt: skip

# White space of every kind around a line does not count, and a line of nothing else is blank.
PADDING = ("", "\u3000", "\u00a0", "\u2028", " \u2029", "\u202f\t", "\x85", "\u2003\r")


def padded(sentences: list[str]) -> list[str]:
    """Put white space around the sentences, of another kind for each."""
    return [
        PADDING[index % len(PADDING)] + sentence + PADDING[-1 - index % len(PADDING)]
        for index, sentence in enumerate(sentences)
    ]


def as_text() -> bytes:
    """Write the documents under titles, between blank lines of many kinds of white space."""
    parts = [
        f"{PADDING[index % len(PADDING)]}= {name} =\n" + "\n".join(padded(sentences))
        for index, (name, sentences) in enumerate(DOCUMENTS.items())
    ]
    return "\n\u3000\u2028\n".join(parts).encode()


def as_lines() -> bytes:
    """Write the sentences, one document a line."""
    lines = [line for sentences in DOCUMENTS.values() for line in padded(sentences)]
    return "\n".join(lines).encode()


def as_json_lines() -> bytes:
    """Write one document a record, every other one with escapes in place of characters."""
    records = [
        json.dumps({"題": name, "text": "\n".join(padded(sentences))}, ensure_ascii=index % 2 > 0)
        for index, (name, sentences) in enumerate(DOCUMENTS.items())
    ]
    return "\n".join(records).encode()

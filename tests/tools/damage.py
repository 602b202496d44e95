"""Files that a failing disk or a power failure has damaged."""

from pathlib import Path


def damage_file(path: Path, kind: str) -> None:
    """Damage a file.

    Args:
        path: the file.
        kind: "cut" leaves its first half, "gone" deletes it, "flipped" flips one bit in the middle,
            "zeroed" keeps its size.
    """
    content = bytearray(path.read_bytes())
    match kind:
        case "cut":
            content = content[: len(content) // 2]
        case "flipped":
            content[len(content) // 2] ^= 4
        case "zeroed":
            content = bytearray(len(content))
    path.unlink()
    if kind != "gone":
        path.write_bytes(content)

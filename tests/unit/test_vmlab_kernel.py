"""Kernels unpacked: what QEMU can start is given as it is, all else as it came."""

from __future__ import annotations

import lzma
import struct

import pytest

from iotrial_vmlab.image import unpacked

PVH = (b"Xen\x00", 18, struct.pack("<Q", 0x1000000))
LINUX = (b"Linux\x00", 0x100, b"")


def note(name: bytes, kind: int, said: bytes) -> bytes:
    parts = (each + bytes(-len(each) % 4) for each in (name, said))
    return struct.pack("<III", len(name), len(said), kind) + b"".join(parts)


def elf(*notes: tuple[bytes, int, bytes]) -> bytes:
    """A file of two segments, the second with the notes."""
    said = b"".join(note(*each) for each in notes)
    start = 64 + 2 * 56
    code = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, start, start, 4096)
    told = struct.pack("<IIQQQQQQ", 4, 4, start, 0, 0, len(said), len(said), 4)
    head = struct.pack("<16sHHIQQQIHHH", b"\x7fELF\x02", 2, 62, 1, 0, 64, 0, 0, 64, 56, 2)
    return head.ljust(64, b"\0") + code + told + said


def packed(
    inner: bytes, *, version: int = 0x20F, magic: bytes = b"HdrS", sectors: int = 3
) -> bytes:
    """A bzImage with ``inner`` behind ``sectors`` of set-up and 100 bytes of code."""
    image = bytearray((sectors + 1) * 512 + 100)
    image[0x1F1] = sectors
    struct.pack_into("<4sH", image, 0x202, magic, version)
    struct.pack_into("<II", image, 0x248, 100, len(inner))
    return bytes(image) + inner + b"what follows"


def xz(data: bytes) -> bytes:
    """As the kernel has it: the size stands behind it."""
    return lzma.compress(data, lzma.FORMAT_XZ) + struct.pack("<I", len(data))


def test_what_qemu_can_start_is_unpacked() -> None:
    kernel = elf(LINUX, PVH) + b"more of it" * 1000
    assert unpacked(packed(xz(kernel))) == kernel
    assert unpacked(packed(xz(kernel), sectors=39)) == kernel


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(packed(xz(elf(PVH)))[:0x24A], id="cut in its header"),
        pytest.param(packed(xz(elf(PVH)))[:-20], id="cut"),
        pytest.param(packed(xz(elf(PVH)), version=0x207), id="too old to say where it is"),
        pytest.param(packed(xz(elf(PVH)), magic=b"Hdr?"), id="no bzImage"),
        pytest.param(packed(b"\x28\xb5\x2f\xfd" + bytes(100)), id="packed by zstd"),
        pytest.param(packed(xz(elf(LINUX))), id="no entry for QEMU"),
        pytest.param(packed(xz(elf())), id="no notes"),
        pytest.param(packed(xz(b"MZ" + bytes(500))), id="not ELF"),
        pytest.param(packed(xz(b"\x7fELF\x01" + bytes(500))), id="of 32 bits"),
        pytest.param(packed(xz(elf(PVH)[:150])), id="its notes are missing"),
    ],
)
def test_all_else_stays_as_it_came(image: bytes) -> None:
    assert unpacked(image) == image

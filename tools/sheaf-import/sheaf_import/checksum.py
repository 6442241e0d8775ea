"""CRC-32C (Castagnoli), the checksum of every field of a fragment stream.

The package google-crc32c computes it in hardware, at gigabytes per second; it has wheels for all common platforms.
Without it the table below does the same at some 8 MB/s, so that the writer needs nothing but Python.
"""

__all__ = ["IMPLEMENTATION", "crc32c", "crc32c_pure"]


def _make_table():
    """The remainder of each byte value, for the reflected polynomial 0x82f63b78."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _make_table()


def crc32c_pure(data, checksum=0):
    """CRC-32C of `data` (bytes-like), continuing `checksum`; in Python alone.

    >>> hex(crc32c_pure(b"123456789"))
    '0xe3069283'
    >>> hex(crc32c_pure(b"56789", crc32c_pure(b"1234")))
    '0xe3069283'
    """
    table = _TABLE
    value = checksum ^ 0xFFFF_FFFF
    for byte in bytes(data):
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFF_FFFF


try:
    import google_crc32c

    # Its own fallback is no faster than ours and warns at import; only the compiled one is worth having.
    if google_crc32c.implementation != "c":
        raise ImportError("google_crc32c has no compiled implementation here")
except ImportError:
    IMPLEMENTATION = "pure Python"
    crc32c = crc32c_pure
else:
    IMPLEMENTATION = "google-crc32c"

    def crc32c(data, checksum=0):
        """CRC-32C of `data` (bytes-like), continuing `checksum`."""
        return google_crc32c.extend(checksum, bytes(data))

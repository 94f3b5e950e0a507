"""Hashes of many strings, which are computed together, are those of the strings one by one."""

from __future__ import annotations

import numpy as np
import pytest

from gradtape._src.text import hashing


@pytest.mark.parametrize("longest", [3, 7, 8, 16, 17, 70])
def test_many_texts_hash_like_each_of_them(longest):
    rng = np.random.default_rng(longest)
    texts = [bytes(rng.integers(0, 256, rng.integers(0, longest + 1)).astype(np.uint8)) for _ in range(600)]
    for hashed in (hashing.fingerprint64, hashing.murmur64, lambda rows: hashing.siphash(rows, (1, 2))):
        assert hashed(texts).tolist() == [int(hashed([text])[0]) for text in texts]


def test_hashes_of_the_paper_and_of_tensorflow():
    """SipHash's test vector, and TensorFlow's numbers of strings of every formula."""
    assert int(hashing.siphash([bytes(range(15))], (0x0706050403020100, 0x0F0E0D0C0B0A0908))[0]) == 0xA129CA6149BE45E5
    texts = [b"a" * n for n in (0, 1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 200)]
    assert (hashing.fingerprint64(texts) % np.uint64(10**9 + 7)).tolist() == [
        912170738,
        384735799,
        915612782,
        55588199,
        144894063,
        823260922,
        343304184,
        78602103,
        177292287,
        516414589,
        500905305,
        498053612,
        210845608,
    ]
    assert (hashing.murmur64(texts) % np.uint64(10**9 + 7)).tolist() == [
        727638525,
        395105680,
        729158982,
        855952470,
        481685866,
        274245218,
        499928046,
        476994600,
        252381092,
        221153578,
        734249730,
        779068766,
        535673316,
    ]

"""The example filter in Python: wants events with much energy, or with two sources that have some.

../README.md says what it computes. To try it on a run that is there, without a run under way:

    python -m sheaf.processor --file runs/run000001 --parameters "sum=70000000 source=24000000" energy_sum.py
"""

import re
import struct

import numpy
import sheaf


@sheaf.filter
class EnergySum:
    def __init__(self, parameters: str) -> None:
        match = re.fullmatch(r"\s*sum=(\d+)\s+source=(\d+)\s*", parameters)
        if match is None:
            raise ValueError('`filter.parameters` should be like "sum=100000 source=40000"')
        self.sum_min, self.source_min = (int(number) for number in match.groups())

    def judge(self, event: sheaf.Event) -> sheaf.Verdict:
        energies = [energy(fragment) for fragment in event]
        total = sum(energies)
        sources = sum(of_source >= self.source_min for of_source in energies)
        tags = ["sum"] * (total >= self.sum_min) + ["pair"] * (sources >= 2)
        if not tags:
            return sheaf.reject()
        return sheaf.accept(tags=tags, payload=struct.pack("<QI", total, sources))


def energy(fragment: sheaf.Fragment) -> int:
    """The sum of the samples: 16 bits each, the low byte first."""
    samples = numpy.frombuffer(fragment.data, dtype="<u2", count=len(fragment) // 2)
    return int(samples.sum(dtype="u8"))

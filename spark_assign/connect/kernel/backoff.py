"""How long the leader waits when rounds in a row want to revoke for balance (Kafka's `ExponentialBackoff`).

Principle: 1 ms, times 40 with every further round, at most `scheduled.rebalance.max.delay.ms`, without jitter.

Example: with a maximum of 5 minutes 40, 1,600, 64,000, 300,000, 300,000, … ms. The exponent is cut off at
log(max) / log(40), and the result cut to a whole number: a maximum of 30,000 ms is never reached, it gives 29,999.

Java's logarithm and power round the last bit in their own way. Compared over all maxima up to 3,000,000 ms, one in
12,000 comes out a millisecond off (for example 1,207), and none that is a multiple of 1,000.
"""

from __future__ import annotations

import math

MULTIPLIER = 40


def backoff(attempts: int, max_delay_ms: int) -> int:
    """Milliseconds to wait after so many rounds in a row."""
    initial = min(max_delay_ms, 1)
    if max_delay_ms <= initial:
        return initial
    most = math.log(max_delay_ms) / math.log(MULTIPLIER)
    return min(int(initial * math.pow(MULTIPLIER, min(attempts, most))), max_delay_ms)

"""Single-step minP over sign flips, by its definition. Usage: min_p.py > ../data/min_p.json"""

import itertools
import json

import numpy as np

MASK = (1 << 64) - 1


def splitmix(seed, position):
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def sign_vectors(blocks, draws, seed):
    """All of them to 16 blocks; above, the data as they are and then the seeded draws."""
    if blocks <= 16:
        return np.array(list(itertools.product([1.0, -1.0], repeat=blocks)))
    words = -(-blocks // 64)
    drawn = []
    for draw in range(draws):
        bits = [splitmix(seed, draw * words + word) for word in range(words)]
        drawn.append([-1.0 if bits[s // 64] >> (s % 64) & 1 else 1.0 for s in range(blocks)])
    return np.vstack([np.ones(blocks), np.array(drawn)])


def min_p(comparisons, alternative, draws, seed):
    tested = [row for row in comparisons if np.isfinite(row).sum() >= 5]
    used = np.isfinite(np.array(tested)).any(axis=0)
    signs = sign_vectors(int(used.sum()), draws, seed)
    p = []
    for row in tested:
        d = np.asarray(row)[used]
        has = np.isfinite(d)
        n = has.sum()
        flipped = signs[:, has] * d[has]
        spread = flipped.std(axis=1, ddof=1)
        with np.errstate(divide="ignore"):
            t = flipped.mean(axis=1) / (spread / np.sqrt(n))
        if alternative == "two_sided":
            t = np.abs(t)
        # Bounded, so that a tolerance for ties makes sense for large t too.
        t = np.round(t / np.sqrt(t * t + n - 1), 10)
        p.append(np.array([(t >= own).mean() for own in t]))
    p = np.array(p)
    least = p.min(axis=0)
    adjusted = [float((least <= own + 1e-12).mean()) for own in p[:, 0]]
    return {"p": [float(own) for own in p[:, 0]], "p_adjusted": adjusted}


def case(name, sizes, blocks, effects, alternative, rng, draws=0, seed=0):
    rows = []
    for size, effect in zip(sizes, effects):
        row = np.round(effect + rng.normal(size=blocks), 2)
        missing = rng.permutation(blocks)[: blocks - size]
        row[missing] = np.nan
        rows.append(row)
    found = min_p(rows, alternative, draws, seed)
    data = [[None if np.isnan(d) else float(d) for d in row] for row in rows]
    return {"name": name, "alternative": alternative, "draws": draws, "seed": seed, "data": data, **found}


def main():
    rng = np.random.default_rng(13)
    cases = [
        case("exact", [10, 7, 5, 9], 10, [0.8, 0.5, -0.5, 0.0], "greater", rng),
        case("exact, two-sided", [9, 9, 6, 5], 9, [0.6, -0.9, 0.2, -1.0], "two_sided", rng),
        case("one comparison is not tested", [8, 6, 4], 8, [0.9, 0.4, 3.0], "greater", rng),
        case("drawn", [20, 18, 11, 5, 17], 20, [0.5, 0.3, 0.2, -1.0, 0.0], "greater", rng, 400, 42),
        case("drawn, two-sided", [70, 40, 5], 70, [0.3, -0.4, 1.0], "two_sided", rng, 400, 7),
    ]
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()

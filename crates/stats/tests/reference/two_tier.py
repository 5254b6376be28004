"""Clustered PPI++ for paired differences, and α over clusters. Usage: two_tier.py > ../data/two_tier.json"""

import json

import numpy as np
from scipy import stats


def cell(rows):
    """Rows (cheap, trusted or None, inclusion)."""
    cheap = np.mean([r[0] for r in rows])
    drawn = [r for r in rows if r[1] is not None]
    if not drawn:
        return cheap, None
    w = [1 / r[2] for r in drawn]
    return cheap, (np.average([r[1] for r in drawn], weights=w), np.average([r[0] for r in drawn], weights=w), len(drawn))


def by_block(left, right):
    f, y, g, labelled, items = [], [], [], [], 0
    for a, b in zip(left, right):
        if not a or not b:
            continue
        (fa, ba), (fb, bb) = cell(a), cell(b)
        f.append(fa - fb)
        labelled.append(ba is not None and bb is not None)
        if labelled[-1]:
            y.append(ba[0] - bb[0])
            g.append(ba[1] - bb[1])
            items += ba[2] + bb[2]
    return np.array(f), np.array(y), np.array(g), np.array(labelled), items


def contributions(parts):
    """ψ = a + λb over the blocks of C."""
    f, y, g, labelled, _ = parts
    a, b = np.zeros(len(f)), (f - f.mean()) / len(f)
    a[labelled] = (y - y.mean()) / len(y)
    b[labelled] -= (g - g.mean()) / len(y)
    return a, b


def factor(parts):
    return len(parts[1]) / (len(parts[1]) - 1)


def variance(parts, lam):
    f, y, g, labelled, _ = parts
    psi = lam * (f - f.mean()) / len(f)
    h = y - lam * g
    psi[labelled] += (h - h.mean()) / len(y)
    return factor(parts) * (psi**2).sum()


def vertex(value):
    """Where the parabola through three of its points is smallest, within [0, 1]."""
    v0, v1, v2 = value(0.0), value(0.5), value(1.0)
    return float(np.clip(0.25 * (3 * v0 - 4 * v1 + v2) / (v0 - 2 * v1 + v2), 0, 1))


def corrected(all_parts, lam):
    """Variances with the residuals of every block divided by I minus its part of the hat matrix."""
    a, b = np.array([contributions(p)[0] for p in all_parts]), np.array([contributions(p)[1] for p in all_parts])
    root = np.sqrt([factor(p) for p in all_parts])[:, None]
    psi, b = root * (a + lam * b), root * b
    total = (b**2).sum()
    out = np.empty_like(psi)
    for s in range(psi.shape[1]):
        out[:, s] = np.linalg.solve(np.eye(len(b)) - np.outer(b[:, s], b[:, s]) / total, psi[:, s])
    return (out**2).sum(axis=1)


def tuned(all_parts):
    """λ and the variances; λ = 0 where the corrected variances are not smaller."""
    lam = vertex(lambda lam: sum(variance(p, lam) for p in all_parts))
    found, alone = corrected(all_parts, lam), [variance(p, 0.0) for p in all_parts]
    return (lam, found) if sum(found) < sum(alone) else (0.0, alone)


def estimate(parts, lam, v):
    f, y, g, _, items = parts
    theta = lam * f.mean() + (y - lam * g).mean()
    alone = variance(parts, 0.0)
    half = stats.t.ppf(0.975, len(y) - 1) * np.sqrt(v)
    return {
        "lambda": lam, "mean": theta, "se": np.sqrt(v), "interval": [theta - half, theta + half],
        "lower_bound": theta - stats.t.ppf(0.95, len(y) - 1) * np.sqrt(v), "blocks": len(f), "trusted_blocks": len(y),
        "items": items, "trusted_mean": y.mean(), "trusted_se": np.sqrt(alone), "effective_items": alone / v * items,
    }  # fmt: skip


def bias(left, right):
    both = [(cell(a)[1], cell(b)[1]) for a, b in zip(left, right) if a and b]
    both = [(a, b) for a, b in both if a and b]
    d = np.array([(a[1] - a[0]) - (b[1] - b[0]) for a, b in both])
    half = stats.t.ppf(0.975, len(d) - 1) * stats.sem(d)
    return {"mean": d.mean(), "interval": [d.mean() - half, d.mean() + half]}


def draw(rng, treatments, blocks, replicates, share, drop):
    cells = []
    for j in range(treatments):
        row = []
        for s in range(blocks):
            rows = []
            for _ in range(replicates):
                y = round(3 + 0.4 * j + rng.normal() * 0.6 + rng.normal() * 1.6, 2)
                f = round(0.8 * y + 0.5 + 0.2 * j + rng.normal() * 0.7, 2)
                pi = round(rng.uniform(0.2, 1.0), 2)
                rows.append([f, y if rng.uniform() < share and s % 4 != 3 else None, pi])
            row.append([] if rng.uniform() < drop else rows)
        cells.append(row)
    return cells


def alpha_interval(raters, clusters):
    def alpha(keep):
        o = {}
        for i in keep:
            scores = [r[i] for r in raters if r[i] is not None]
            for a in range(len(scores)):
                for b in range(len(scores)):
                    if a != b:
                        key = (scores[a], scores[b])
                        o[key] = o.get(key, 0) + 1 / (len(scores) - 1)
        n = {}
        for (c, _), weight in o.items():
            n[c] = n.get(c, 0) + weight
        total = sum(n.values())
        levels = sorted(n)

        def d2(c, k):
            c, k = min(c, k), max(c, k)
            return (sum(n[x] for x in levels if c <= x <= k) - (n[c] + n[k]) / 2) ** 2

        seen = sum(w * d2(c, k) for (c, k), w in o.items())
        expected = sum(n[c] * n[k] * d2(c, k) for c in levels for k in levels if c != k)
        return 1 - (total - 1) * seen / expected

    names = sorted(set(clusters))
    out = np.array([alpha([i for i, c in enumerate(clusters) if c != g]) for g in names])
    se = np.sqrt((len(names) - 1) / len(names) * ((out - out.mean()) ** 2).sum())
    whole = alpha(range(len(clusters)))
    half = stats.t.ppf(0.975, len(names) - 1) * se
    return {
        "raters": raters, "clusters": clusters, "alpha": whole, "se": se,
        "interval": [whole - half, min(1.0, whole + half)],
    }  # fmt: skip


def main():
    rng = np.random.default_rng(7)
    pairs = [draw(rng, 2, 16, 5, 0.5, 0.0), draw(rng, 2, 9, 3, 1.0, 0.1), draw(rng, 2, 24, 4, 0.3, 0.1), draw(rng, 2, 20, 5, 0.4, 0.0)]
    found = []
    for left, right in pairs:
        parts = by_block(left, right)
        lam, (v,) = tuned([parts])
        found.append({"cells": [left, right], "tuned": estimate(parts, lam, v), "bias": bias(left, right)})
    table = draw(rng, 4, 14, 4, 0.5, 0.0)
    all_parts = [by_block(table[j], table[0]) for j in range(1, 4)]
    lam, variances = tuned(all_parts)
    truth = rng.integers(1, 6, size=30)
    rate = lambda: [None if rng.uniform() < 0.1 else int(np.clip(t + rng.integers(-1, 2), 1, 5)) for t in truth]
    raters = [rate(), rate(), rate()]
    print(json.dumps({
        "pairs": found,
        "table": {"cells": table, "lambda": lam, "differences": [estimate(p, lam, v) for p, v in zip(all_parts, variances)]},
        "alpha": alpha_interval(raters, [i // 4 for i in range(30)]),
    }))  # fmt: skip


if __name__ == "__main__":
    main()

"""Corrections for selection and for a covariate. Usage: adjusted.py > ../data/adjusted.json"""

import json

import numpy as np
from scipy import stats


def selection(d):
    """A complete two-way table treatments × blocks, by least squares on indicator variables."""
    d = np.asarray(d)
    a, s = d.shape
    t, b = np.repeat(np.arange(a), s), np.tile(np.arange(s), a)
    blocks = (b[:, None] == np.arange(s)).astype(float)
    full = np.hstack([blocks, (t[:, None] == np.arange(1, a)).astype(float)])
    rss = lambda x: ((d.ravel() - x @ np.linalg.lstsq(x, d.ravel(), rcond=None)[0]) ** 2).sum()
    f = ((rss(blocks) - rss(full)) / (a - 1)) / (rss(full) / ((a - 1) * (s - 1)))
    keep = max(0.0, 1 - 1 / f)
    means = d.mean(axis=1)
    return {"data": d.tolist(), "f": f, "keep": keep, "corrected": (means.mean() + keep * (means - means.mean())).tolist()}


def covariate(rows, left, right):
    """Slope by least squares with one indicator for each cell; the influence of a block by its definition."""
    t, b, y, x = (np.array(column) for column in zip(*rows))
    cells = sorted(set(zip(t, b)))
    z = np.array([[1.0 if (ti, bi) == c else 0.0 for c in cells] for ti, bi in zip(t, b)])
    coefficients = np.linalg.lstsq(np.hstack([x[:, None], z]), y, rcond=None)[0]
    slope = coefficients[0]
    residual = y - np.hstack([x[:, None], z]) @ coefficients
    centred = x - z @ np.linalg.lstsq(z, x, rcond=None)[0]
    shared = [s for s in sorted(set(b)) if (left, s) in cells and (right, s) in cells]
    at = lambda v, j, s: v[(t == j) & (b == s)].mean()
    d = np.array([at(y, left, s) - at(y, right, s) for s in shared])
    dx = np.array([at(x, left, s) - at(x, right, s) for s in shared])
    adjusted = d - slope * dx
    psi = {s: 0.0 for s in sorted(set(b))}
    for s in psi:
        psi[s] -= dx.mean() * (centred * residual)[b == s].sum() / (centred**2).sum()
    for s, own in zip(shared, adjusted):
        psi[s] += (own - adjusted.mean()) / len(shared)
    n = len(shared)
    se = np.sqrt(n / (n - 1) * sum(p * p for p in psi.values()))
    half = stats.t.ppf(0.975, n - 1) * se
    mean = adjusted.mean()
    return {
        "rows": rows, "left": left, "right": right, "slope": slope, "raw": d.mean(),
        "covariate": dx.mean(), "mean": mean, "se": se, "interval": [mean - half, mean + half],
        "lower_bound": mean - stats.t.ppf(0.95, n - 1) * se,
    }  # fmt: skip


def main():
    rng = np.random.default_rng(9)
    tables = [np.round(rng.normal(size=(a, s)) + rng.normal(size=s) + spread * np.arange(a)[:, None], 2)
              for a, s, spread in [(5, 9, 0.4), (11, 8, 0.0), (3, 6, 2.0)]]  # fmt: skip
    rows = []
    for j in range(3):
        for s in range(7):
            for _ in range(0 if (j, s) == (1, 6) else 4):
                x = round(20 + 5 * j + 6 * rng.normal(), 1)
                rows.append([j, s, round(3 + 0.1 * x + 0.2 * s + rng.normal(), 2), x])
    print(json.dumps({"selection": [selection(d) for d in tables], "covariate": [covariate(rows, 1, 0), covariate(rows, 2, 0)]}))


if __name__ == "__main__":
    main()

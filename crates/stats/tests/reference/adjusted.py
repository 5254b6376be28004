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


def covariate(differences, x):
    """The regression of differences on a covariate's differences, by SciPy."""
    fit = stats.linregress(x, differences)
    half = stats.t.ppf(0.975, len(x) - 2) * fit.intercept_stderr
    return {
        "differences": differences, "x": x, "slope": fit.slope, "slope_p": fit.pvalue, "mean": fit.intercept,
        "se": fit.intercept_stderr, "interval": [fit.intercept - half, fit.intercept + half],
    }  # fmt: skip


def main():
    rng = np.random.default_rng(9)
    tables = [np.round(rng.normal(size=(a, s)) + rng.normal(size=s) + spread * np.arange(a)[:, None], 2)
              for a, s, spread in [(5, 9, 0.4), (11, 8, 0.0), (3, 6, 2.0)]]  # fmt: skip
    regressions = []
    for blocks in (5, 12, 40):
        x = np.round(4 + 6 * rng.normal(size=blocks), 1)
        differences = np.round(0.5 + 0.1 * x + rng.normal(size=blocks), 2)
        regressions.append(covariate(differences.tolist(), x.tolist()))
    print(json.dumps({"selection": [selection(d) for d in tables], "covariate": regressions}))


if __name__ == "__main__":
    main()

"""The workloads of leaderboard.rs in NumPy and SciPy, vectorised: cells by bincount, sign flips and
resamples as matrix products. Reads the benchmark's data, prints medians and p values as JSON."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import scipy
from scipy import stats

DRAWS = 10_000
TIE = 1e-12


def board(treatment, block, value, treatments, blocks):
    cell = treatment * blocks + block
    count = np.bincount(cell, minlength=treatments * blocks)
    mean = np.bincount(cell, weights=value, minlength=treatments * blocks) / count
    np.bincount(cell, weights=(value - mean[cell]) ** 2, minlength=treatments * blocks)
    mean = mean.reshape(treatments, blocks)

    se = mean.std(axis=1, ddof=1) / np.sqrt(blocks)
    half = stats.t.ppf(0.975, blocks - 1) * se
    np.stack([mean.mean(axis=1) - half, mean.mean(axis=1) + half])
    d = mean[1:] - mean[0]
    t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / np.sqrt(blocks))
    p = stats.t.sf(t, blocks - 1)

    rng = np.random.default_rng(42)
    bits = rng.integers(0, 2, size=(DRAWS, blocks), dtype=np.int8)
    max_t(1.0 - 2.0 * bits, d)

    index = rng.integers(0, blocks, size=(DRAWS, blocks))
    index += np.arange(DRAWS)[:, None] * blocks
    counts = np.bincount(index.ravel(), minlength=DRAWS * blocks).reshape(DRAWS, blocks)
    resampled = counts.astype(float) @ mean.T / blocks
    leads = resampled >= resampled.max(axis=1, keepdims=True) - TIE
    (leads / leads.sum(axis=1, keepdims=True)).mean(axis=0)
    ranks = (-resampled).argsort(axis=1).argsort(axis=1) + 1
    np.percentile(ranks, [2.5, 97.5], axis=0)
    return p


def max_t(signs, d):
    """Raw and adjusted counts: the statistic is monotone in the sum scaled by the root of Σd²."""
    scale = np.sqrt((d**2).sum(axis=1) * d.shape[1])
    flipped = signs @ (d / scale[:, None]).T
    observed = d.sum(axis=1) / scale - TIE
    raw = (flipped >= observed).sum(axis=0)
    largest = np.sort(flipped.max(axis=1))
    adjusted = len(largest) - np.searchsorted(largest, observed)
    return raw, adjusted


def exact(d):
    blocks = d.shape[1]
    vectors = np.arange(1 << blocks)
    signs = 1.0 - 2.0 * ((vectors[:, None] >> np.arange(blocks)) & 1)
    return max_t(signs, d)[1] / len(vectors)


def timed(runs, work):
    result = work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - start) * 1e3)
    return {"ms": float(np.median(times)), "p": [float(x) for x in result]}


def main():
    folder = Path(sys.argv[1])
    treatments, blocks, exact_blocks, runs = map(int, sys.argv[2:6])
    treatment = np.fromfile(folder / "treatment.i64", dtype="<i8")
    block = np.fromfile(folder / "block.i64", dtype="<i8")
    value = np.fromfile(folder / "value.f64", dtype="<f8")
    family = np.fromfile(folder / "family.f64", dtype="<f8").reshape(-1, exact_blocks)
    print(
        json.dumps(
            {
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "board": timed(runs, lambda: board(treatment, block, value, treatments, blocks)),
                "exact": timed(runs, lambda: exact(family)),
            }
        )
    )


main()

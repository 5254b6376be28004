"""Shrunken block and group effects. Usage: block_effects.py > ../data/block_effects.json"""

import json

import numpy as np
from scipy import optimize, stats


def shrink(y, v):
    y, v = np.asarray(y), np.asarray(v)

    def excess(tau2):
        w = 1 / (v + tau2)
        return (w * (y - np.average(y, weights=w)) ** 2).sum() - (len(y) - 1)

    tau2 = 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, 1e4, xtol=1e-15, rtol=1e-15)
    w = 1 / (v + tau2)
    mu = np.average(y, weights=w)
    keep = tau2 / (tau2 + v)
    sd = np.sqrt(v + tau2)
    most = stats.norm.ppf(1 - 0.2 / len(y))
    moved = y - (1 - keep) * np.clip((y - mu) / sd, -most, most) * sd
    spread = np.sqrt(keep * v + (1 - keep) ** 2 / w.sum())
    return {"mean": mu, "mean_se": w.sum() ** -0.5, "tau2": tau2, "effects": moved.tolist(), "sd": spread.tolist()}


def blocks(left, right, alpha):
    """Replicates by block of two treatments."""
    d = np.array([np.mean(a) - np.mean(b) for a, b in zip(left, right)])
    cells = left + right
    df = sum(len(c) - 1 for c in cells)
    if df:
        pooled = sum(((np.array(c) - np.mean(c)) ** 2).sum() for c in cells) / df
        v = [pooled * (1 / len(a) + 1 / len(b)) for a, b in zip(left, right)]
        found = shrink(d, v)
        estimates, sd, mean = found["effects"], found["sd"], found["mean"]
    else:
        sd = [np.delete(d, s).std(ddof=1) for s in range(len(d))]
        t = stats.t.ppf(1 - alpha / len(d), len(d) - 2)
        estimates, mean = [x + t * own for x, own in zip(d, sd)], d.mean()
    return {
        "left": left, "right": right, "alpha": alpha, "differences": d.tolist(), "mean": float(mean),
        "estimates": [float(e) for e in estimates], "sd": [float(s) for s in sd], "worst": int(np.argmin(estimates)),
    }  # fmt: skip


def groups(d, labels):
    labels, d = np.array(labels), np.array(d)
    names = np.unique(labels)
    own = [d[labels == g] for g in names]
    within = sum(((x - x.mean()) ** 2).sum() for x in own) / (len(d) - len(names))
    means = [x.mean() for x in own]
    se = [np.sqrt(within / len(x)) for x in own]
    found = shrink(means, np.square(se))
    return {
        "differences": d.tolist(), "labels": labels.tolist(), "groups": names.tolist(), "blocks": [len(x) for x in own],
        "mean": [float(m) for m in means], "se": [float(s) for s in se], "estimates": found["effects"],
    }  # fmt: skip


def main():
    rng = np.random.default_rng(4)
    draw = lambda n: np.round(rng.normal(size=n), 2)
    y = draw(12) * 2 + 0.5
    v = np.round(rng.uniform(0.2, 2.0, size=12), 2)
    calm = draw(9) * 0.3
    outlier = np.append(draw(30), -9.0)
    cases = [(y, v), (calm, np.ones(9)), (outlier, np.full(31, 0.8)), (y[:1], v[:1]), (y[:2], v[:2])]
    left = [draw(k).tolist() for k in (5, 4, 5, 2, 1, 5, 3)]
    right = [(draw(k) - 0.8).tolist() for k in (5, 5, 5, 3, 2, 1, 5)]
    left[2] = [x - 4 for x in left[2]]
    single = lambda n, shift: [[float(x)] for x in draw(n) + shift]
    labels = [0, 0, 0, 2, 2, 2, 2, 1, 5, 5, 5, 5]
    print(json.dumps({
        "shrink": [{"y": list(map(float, a)), "v": list(map(float, b)), **shrink(a, b)} for a, b in cases],
        "blocks": [blocks(left, right, 0.05), blocks(single(8, 0.5), single(8, 0.0), 0.05)],
        "groups": groups(y, labels),
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()

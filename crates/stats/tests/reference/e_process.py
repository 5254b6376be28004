"""The e-process of symmetric differences. Usage: e_process.py > ../data/e_process.json"""

import json

import numpy as np
from scipy import optimize, special


def log_e(d, scale):
    lam = np.array([0.25, 0.5, 1, 2, 4]) / scale
    # exp(x)/cosh(x) = 2/(1 + exp(-2x)) = 2·expit(2x).
    logs = special.log_expit(2 * np.outer(lam, d)).sum(axis=1) + len(d) * np.log(2)
    return float(special.logsumexp(logs) - np.log(len(lam)))


def case(d, scale, alpha):
    d = np.asarray(d)
    target = -np.log(alpha)
    bound = None
    if len(d) * np.log(2) > target:
        f = lambda m: log_e(d - m, scale) - target
        bound = float(optimize.brentq(f, d.min() - 50 * scale, d.max(), xtol=1e-13))
    return {
        "d": d.tolist(), "scale": scale, "alpha": alpha, "log_e": log_e(d, scale),
        "path": [log_e(d[: n + 1], scale) for n in range(len(d))], "lower_bound": bound,
    }  # fmt: skip


def main():
    rng = np.random.default_rng(6)
    draw = lambda n, shift: np.round(rng.normal(size=n) * 1.3 + shift, 2)
    cases = [case(draw(24, 1.0), 1.3, 0.05), case(draw(8, 0.2), 2.0, 0.05), case(draw(4, 3.0), 1.0, 0.05)]
    cases += [case(draw(60, -0.5), 1.0, 0.01), case([500.0, -700.0, 400.0, 300.0, 2.0, 1.0], 0.5, 0.1)]
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()

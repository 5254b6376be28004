"""Charts of shift, slope and spread. Usage: scale_use.py > ../data/scale_use.json"""

import json

import numpy as np
from scipy import stats


def charts(known, sittings, baseline, noise, lam=0.3, false_alarms=0.09, count=20, families=1):
    known = np.asarray(known)
    each = false_alarms / (3 * count * families)
    limit = stats.norm.isf(each / 2)
    earlier, pool, pool_df = [], 0.0, 0
    ewma, steps, points = np.zeros(2), np.zeros(2), []
    for given in sittings:
        given = np.array([np.nan if g is None else g for g in given])
        m = np.sum([~np.isnan(e) for e in earlier], axis=0) if earlier else np.zeros(len(known))
        if baseline == "known":
            expected, w = known, np.ones(len(known))
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = np.nansum(earlier, axis=0) / m if earlier else np.full(len(known), np.nan)
                w = m / (m + 1)
        keep = ~np.isnan(given - expected)
        if not keep.any():
            earlier.append(given)
            points.append(None)
            continue
        x, y, w, g = known[keep], (given - expected)[keep], w[keep], given[keep]
        # Weighted least squares by matrices.
        design = np.column_stack([np.ones(len(x)), x - np.average(x, weights=w)])
        inverse = np.linalg.inv(design.T @ (w[:, None] * design))
        coefficients = inverse @ design.T @ (w * y)
        rss = float((w * (y - design @ coefficients) ** 2).sum())
        slope = float((inverse @ design.T @ (w * g))[1])
        df = len(x) - 2
        own = False
        if noise[0] == "known":
            sd, nu = noise[1], None
        elif noise[0] == "estimated":
            sd, nu = noise[1], noise[2]
        elif pool_df:
            sd, nu = max(noise[1], np.sqrt(pool / pool_df)), pool_df
        else:
            sd, nu, own = max(noise[1], np.sqrt(rss / df)), df, True
        t = coefficients / (sd * np.sqrt(np.diag(inverse)))
        z = t if nu is None else np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), nu))
        steps += 1
        ewma = lam * z + (1 - lam) * ewma
        limits = limit * np.sqrt(lam / (2 - lam) * (1 - (1 - lam) ** (2 * steps)))
        top = stats.chi2.isf(each, df) if nu is None else df * stats.f.isf(each, df, nu)
        chi2 = rss / sd**2
        alarms = [bool(abs(ewma[0]) > limits[0]), bool(abs(ewma[1]) > limits[1]), bool(not own and chi2 > top)]
        points.append({
            "anchors": len(x), "sd": sd, "noise_df": nu, "shift": coefficients[0], "slope": slope, "z": list(z),
            "ewma": list(ewma), "limits": list(limits), "chi2": None if own else chi2, "top": None if own else top,
            "alarms": alarms,
        })  # fmt: skip
        if not any(alarms):
            earlier.append(given)
            pool, pool_df = pool + rss, pool_df + df
    return points


def main():
    rng = np.random.default_rng(11)
    known = [1.0, 2.0, 3.0, 4.0, 5.0, 2.33, 3.67, 1.67, 4.33, 2.67, 3.33, 4.67]
    sitting = lambda f=lambda k: k, sd=0.3: [round(float(f(k) + sd * rng.normal()), 3) for k in known]
    calm = [sitting() for _ in range(4)]
    gaps = [[None if rng.uniform() < 0.15 else g for g in s] for s in calm]
    flat = calm[:3] + [[3.0] * len(known)] + [sitting(lambda k: 3 + 0.5 * (k - 3)), sitting(sd=0.9), sitting()]
    harsh = [sitting(lambda k: 0.8 * k + 1.5, 0.4) for _ in range(4)] + [sitting(lambda k: 0.8 * k + 2.2, 0.4)]
    cases = [
        ("known", ("known", 0.3), flat),
        ("known", ("estimated", 0.35, 8.0), gaps + flat),
        ("earlier", ("earlier", 0.05), harsh),
        ("earlier", ("earlier", 0.05), gaps + flat),
        ("known", ("earlier", 0.05), calm + flat),
    ]
    print(json.dumps({"known": known, "cases": [
        {"baseline": b, "noise": n, "sittings": s, "points": charts(known, s, b, n)} for b, n, s in cases
    ]}))  # fmt: skip


if __name__ == "__main__":
    main()

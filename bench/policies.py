"""Predict and learn with MABWiser, Vowpal Wabbit and NumPy: the baselines of the policies.

Usage: policies.py [STEPS]. LinUCB at D = 12 with 10 arms, one decision and one update a step, in steps per CPU
second. A package that is not installed is left out. The last line compares the choices of MABWiser's LinUCB
with those of the formulas in NumPy, where both have the same semantics (disjoint models, the same alpha and
regularisation).
"""

import sys
import time

import numpy as np

D, ARMS, ALPHA = 12, 10, 1.0


def draws(steps):
    rng = np.random.default_rng(7)
    return rng.random((steps, D)), rng.random((steps, ARMS))


def numpy_choices(contexts, rewards):
    inverse = np.repeat(np.eye(D)[None], ARMS, axis=0)
    b = np.zeros((ARMS, D))
    chosen = []
    for x, reward in zip(contexts, rewards):
        theta = np.einsum("aij,aj->ai", inverse, b)
        width = np.sqrt(np.einsum("i,aij,j->a", x, inverse, x))
        arm = int(np.argmax(theta @ x + ALPHA * width))
        v = inverse[arm] @ x
        inverse[arm] -= np.outer(v, v) / (1 + x @ v)
        b[arm] += reward[arm] * x
        chosen.append(arm)
    return chosen


def mabwiser_choices(contexts, rewards):
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=ALPHA, l2_lambda=1.0))
    start = np.zeros((ARMS, D))
    bandit.fit(list(range(ARMS)), [0.0] * ARMS, start)
    chosen = []
    for x, reward in zip(contexts, rewards):
        arm = bandit.predict([x.tolist()])
        bandit.partial_fit([arm], [float(reward[arm])], [x.tolist()])
        chosen.append(arm)
    return chosen


def vw_choices(contexts, rewards):
    import vowpalwabbit

    vw = vowpalwabbit.Workspace("--cb_explore_adf --epsilon 0.1 --quiet -q ca")
    chosen = []
    for x, reward in zip(contexts, rewards):
        shared = "shared |c " + " ".join(f"f{i}:{v:.4f}" for i, v in enumerate(x))
        actions = [f"|a arm={arm}" for arm in range(ARMS)]
        probabilities = vw.predict([shared, *actions])
        arm = int(np.argmax(probabilities))
        actions[arm] = f"0:{1 - reward[arm]:.4f}:{probabilities[arm]:.4f} {actions[arm]}"
        vw.learn([shared, *actions])
        chosen.append(arm)
    return chosen


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    contexts, rewards = draws(steps)
    found = {}
    for name, choose in [("numpy", numpy_choices), ("MABWiser", mabwiser_choices), ("Vowpal Wabbit", vw_choices)]:
        started = time.process_time()
        try:
            found[name] = choose(contexts, rewards)
        except ImportError as missing:
            print(f"{name}: SKIPPED, {missing}")
            continue
        seconds = time.process_time() - started
        print(f"{name}: {steps / seconds:,.0f} steps per CPU second (D = {D}, {ARMS} arms)")
    if "MABWiser" in found:
        same = np.mean([a == b for a, b in zip(found["numpy"], found["MABWiser"])])
        print(f"MABWiser and NumPy choose the same in {100 * same:.1f} % of {steps} steps")


if __name__ == "__main__":
    main()

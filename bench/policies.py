"""LinUCB with NumPy, MABWiser and Vowpal Wabbit: the baselines of crates/policy/benches/trajectories.rs.

Reads {"contexts": [[…]], "rewards": [[…]]} from stdin, decides and learns step by step, and prints one JSON
object for each package: its choices and its steps per CPU second, or why it was skipped.
"""

import json
import sys
import time

import numpy as np

D, ARMS, ALPHA = 12, 10, 1.0


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


PACKAGES = [
    ("NumPy", numpy_choices, True),
    ("MABWiser", mabwiser_choices, True),
    ("Vowpal Wabbit", vw_choices, False),
]


def main():
    given = json.load(sys.stdin)
    contexts, rewards = np.array(given["contexts"]), np.array(given["rewards"])
    for name, choose, is_same_method in PACKAGES:
        found = {"name": name, "is_same_method": is_same_method}
        started = time.process_time()
        try:
            found["choices"] = [int(arm) for arm in choose(contexts, rewards)]
            found["steps_per_s"] = len(contexts) / (time.process_time() - started)
        except ImportError as missing:
            found["skipped"] = str(missing)
        print(json.dumps(found))


if __name__ == "__main__":
    main()

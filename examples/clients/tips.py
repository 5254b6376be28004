"""A client of the policies in plain Python: asks for a tip, and reports what became of it.

Usage: ASSIZE_URL=http://127.0.0.1:4658 ASSIZE_TOKEN=… python3 tips.py USER
"""

import json
import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("ASSIZE_URL", "http://127.0.0.1:4658")
TOKEN = os.environ.get("ASSIZE_TOKEN", "")


def call(path: str, body: dict) -> dict:
    """Posts JSON; a refusal is raised with the server's own message."""
    request = urllib.request.Request(
        URL + path,
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {TOKEN}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        message = json.load(refusal).get("error", {}).get("message", "")
        raise RuntimeError(f"{path} answered {refusal.code}: {message}") from refusal


def main() -> None:
    user = sys.argv[1] if len(sys.argv) > 1 else "ada"
    # Tips of the same kind share an arm, so that the policy learns although texts never come twice.
    tips = [
        {"id": "walk", "arm": "break", "task_match": 0.2, "text": "Walk around the block."},
        {"id": "plan", "arm": "focus", "task_match": 0.9, "text": "Finish the report first."},
    ]
    decision = call(
        "/recommend",
        {
            "user_id": user,
            "context": {"hour": 9.5, "weekend": False, "open_tasks": 4, "urgency": 0.7},
            "profile_features": {"completion_rate": 0.4, "tip_volume": 12},
            "candidates": tips,
        },
    )
    shown = next(tip for tip in tips if tip["id"] == decision["chosen"])
    print(f"{decision['policy']} shows: {shown['text']} (probability {decision['propensity']:.2f})")
    # Later, when the user has acted on the tip: 1, or 0 if it was dismissed. Sending it twice is safe.
    for _ in range(2):
        answer = call("/reward", {"decision_id": decision["decision_id"], "reward": 1})
    print(f"rewarded: {answer}")


if __name__ == "__main__":
    main()

"""Sits at `assize judge desk` in a real pseudo-terminal, and kills it there.

Usage: terminal_desk.py ASSIZE FOLDER [together]. The folder holds an experiment `e` with everything pending.
The last line printed is OK.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata

ASSIZE, FOLDER = sys.argv[1], sys.argv[2]
ENV = {"PATH": os.environ["PATH"], "HOME": FOLDER, "USER": "tester", "TERM": "xterm-256color"}


class Screen:
    """As much of a terminal as the desk draws with: text, cursor moves, clearing."""

    PARTS = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[^\[]|(.)", re.S)

    def __init__(self):
        self.rows, self.x, self.y, self.unread = {}, 0, 0, b""

    def feed(self, data):
        data = self.unread + data
        text = data.decode("utf-8", "ignore")
        # What ends within a sequence or a character waits for the rest of it.
        cut = data.rfind(b"\x1b")
        if cut >= 0 and not re.search(rb"^\x1b(\[[?0-9;]*[A-Za-z]|[^\[])", data[cut:], re.S):
            self.unread, text = data[cut:], data[:cut].decode("utf-8", "ignore")
        else:
            self.unread = b""
        for arguments, command, letter in self.PARTS.findall(text):
            if command == "H":
                places = [int(it) for it in (arguments or "1;1").split(";")]
                self.y, self.x = places[0] - 1, places[-1] - 1
            elif command == "J":
                self.rows = {}
            elif letter and letter >= " ":
                self.rows.setdefault(self.y, {})[self.x] = letter
                self.x += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
            elif letter == "\n":
                self.y += 1
            elif letter == "\r":
                self.x = 0

    def text(self):
        lines = []
        for _, row in sorted(self.rows.items()):
            lines.append("".join(row.get(x, " ") for x in range(max(row) + 1)))
        return "\n".join(lines)


class Desk:
    """The desk's process with a terminal of this size in front of it."""

    def __init__(self, rows, columns, **env):
        self.screen, self.written = Screen(), b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(FOLDER)
            os.execve(ASSIZE, [ASSIZE, "judge", "desk", "--experiment", "e"], {**ENV, **env})
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """Takes in what was written meanwhile; false where there was nothing."""
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        try:
            chunk = os.read(self.terminal, 65536) if ready else b""
        except OSError:
            chunk = b""
        self.written += chunk
        self.screen.feed(chunk)
        return bool(chunk)

    def shows(self, words):
        return words in self.screen.text()

    def see(self, words, seconds=60):
        """Waits until the words stand on the screen."""
        deadline = time.monotonic() + seconds
        while not self.shows(words):
            assert time.monotonic() < deadline, (words, self.screen.text())
            self.read(0.2)

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        """Reads to the end; the exit status and everything that was written."""
        while True:
            self.read(0.2)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0.2):
                    pass
                return status, self.written


def status_of_experiment():
    done = subprocess.run([ASSIZE, "judge", "status", "--experiment", "e", "--json"], cwd=FOLDER, env=ENV,
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def keys_that_arrive_together():
    """Sixty keys in one write are handled at once, on a cleared alternate screen."""
    desk = Desk(24, 80, NO_COLOR="1")
    desk.see("small-v1")
    entered = desk.written.find(b"\x1b[?1049h")
    assert entered >= 0, "an alternate screen"
    assert b"\x1b[2J" in desk.written[entered:], "it is cleared"
    desk.type("s")
    desk.see("Skipped")
    begun = time.monotonic()
    desk.type("3\r" * 30)
    desk.see("30 done", 5)
    assert time.monotonic() - begun < 5, "at five keys a second it would take twelve"
    # A sitting is not finished by a key beside q.
    desk.type("Q")
    desk.see("Finish the sitting?")
    desk.type("q")
    time.sleep(0.5)
    desk.read(0.2)
    assert os.waitpid(desk.pid, os.WNOHANG)[0] == 0, "it goes on"
    desk.type("Qy")
    status, screen = desk.end()
    assert os.WEXITSTATUS(status) == 0 and b"which is closed" in screen, (status, screen[-500:])
    assert b"\x1b[?1049l" in screen, "the screen of before is back"
    print("OK")


if sys.argv[3:] == ["together"]:
    keys_that_arrive_together()
    sys.exit()

# Three cases are judged; a fourth is scored and not handed in when the process is killed.
desk = Desk(24, 80, NO_COLOR="1")
desk.see("small-v1")
for count in range(3):
    desk.type("3rClear and short.\r\r")
    desk.see(f"{count + 1} done")
desk.type("2")
time.sleep(0.5)
os.kill(desk.pid, signal.SIGKILL)
status, _ = desk.end()
assert os.WTERMSIG(status) == signal.SIGKILL, status

# The same judge goes on, and nothing that was handed in is lost.
desk = Desk(40, 120)
desk.see("3 done")
desk.resize(24, 80)
desk.type("1\r")
desk.see("4 done")
desk.type("?")
desk.see("submit the case")
desk.type("x")
# A signal ends the desk, and the terminal is as before.
os.kill(desk.pid, signal.SIGTERM)
status, screen = desk.end()
assert os.WEXITSTATUS(status) == 130, status
assert b"\x1b[?1049l" in screen, "the screen of before is back"
assert b"4 cases judged" in screen, screen[-500:]

# Quitting at any key is safe: a complete case is handed in.
desk = Desk(24, 80)
desk.see("4 done")
desk.type("2q")
status, screen = desk.end()
assert os.WEXITSTATUS(status) == 0 and b"5 cases judged" in screen, (status, screen[-500:])

# A terminal that is closed ends the desk; it does not go on without anybody.
desk = Desk(24, 80)
desk.see("5 done")
os.close(desk.terminal)
deadline = time.monotonic() + 60
while not os.waitpid(desk.pid, os.WNOHANG)[0]:
    assert time.monotonic() < deadline, "the desk outlives its terminal"
    time.sleep(0.1)

# Nothing is left in the end, and the sitting is closed.
desk = Desk(24, 80)
desk.see("5 done")
while not desk.shows("No cases are left for you"):
    before = desk.screen.text()
    desk.type("3\r")
    deadline = time.monotonic() + 60
    while desk.screen.text() == before:
        assert time.monotonic() < deadline, before
        desk.read(0.2)
    desk.read(0.3)
desk.type("q")
status, screen = desk.end()
assert os.WEXITSTATUS(status) == 0 and b"assize compare" in screen, (status, screen[-800:])
assert status_of_experiment()["expert"]["pending"] == 0
print("OK")

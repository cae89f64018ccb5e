#!/usr/bin/env python3
"""Shows the checker good and bad histories, written by hand: the good ones pass, each bad one breaks its rule."""
import sys

from checker import History, gaps_after_healing, judge
from history import parse
from timeline import draw

MS = 1000000

# A worker w0 leads, gives back; w1 follows. Times are milliseconds.
GOOD = """
    0 starting lead w0-1/c
    1 begin-acquired lead w0-1/c 4
    2 believe lead w0-1/c 4 900
    3 end-acquired lead w0-1/c
    10 write lead 4 w0-1/c 1
    300 believe lead w0-1/c 4 1200
    400 yield lead w0-1/c
    401 begin-released lead w0-1/c
    450 end-released lead w0-1/c
    452 stopped lead w0-1/c 0
    460 begin-acquired lead w1-1/c 6
    461 believe lead w1-1/c 6 1400
    462 end-acquired lead w1-1/c
    470 write lead 6 w1-1/c 2
    500 write lock 1 p0-1/9 1
    500 write tick 1 w0-1/s 1
    900 yield lead w1-1/c
    901 begin-released lead w1-1/c
    902 end-released lead w1-1/c
    903 stopped lead w1-1/c 0
    950 left 0 0
    960 exit w0-1 0
    960 exit p0-1 75
    970 led lead 0.1
"""

# A window in which the store can be reached, and all mutexes are led.
LED = ("2000 demand reach\n8500 write lead 9 w0-1/c 3\n8500 write lock 9 p0-1/9 2\n"
       "8500 write tick 9 w0-1/s 2\n")

# A semaphore of two slots and a set of two, all of them used.
GROUPS = ("0 semaphore seats 2\n0 sets a b\n"
          "1000 believe seats#0 w0-1/n 3 1900\n1001 believe seats#1 w1-1/n 5 1901\n"
          "1002 believe a w0-1/m 2 1902\n1002 believe b w0-1/m 7 1902\n"
          "1010 write seats#0 3 w0-1/n 1\n1010 write seats#1 5 w1-1/n 1\n"
          "1010 write a 2 w0-1/m 1\n1010 write b 7 w0-1/m 1\n"
          "1100 yield seats#0 w0-1/n\n1100 yield a w0-1/m\n1100 yield b w0-1/m\n1500 served w0-1/n\n")

# What is added to the good history, and the rule that it breaks (None: it breaks none).
STORIES = [
    ("a good run", "", None),
    ("another believes meanwhile", "800 believe lead w2-1/c 7 1700", "one owner"),
    ("a stopped owner believes by its deadline",
     "1000 believe lead w2-1/c 7 2000\n1900 believe lead w0-2/c 8 2900", "one owner"),
    ("the deadline of a stopped owner has passed",
     "1000 believe lead w2-1/c 7 2000\n2001 believe lead w0-2/c 8 2900", None),
    ("an owner that was killed believes no more",
     "1000 believe lead w2-1/c 7 2000\n1500 killed w2-1\n1600 believe lead w0-2/c 8 2900", None),
    ("an owner writes a last line while it is killed",
     "1000 believe lead w2-1/c 7 2000\n1500 killed w2-1\n1501 believe lead w2-1/c 7 2000\n"
     "1600 believe lead w0-2/c 8 2900", None),
    ("an owner that crashed believes no more",
     "1000 believe lead w2-1/c 7 2000\n1500 crashed w2-1\n1400 believe lead w0-2/c 8 2900", None),
    ("the mutex goes on before on_released has returned",
     "430 believe lead w2-1/c 5 440", "one owner"),
    ("a scheduler leads while another does",
     "10 believe tick w0-1/s 1 0\n90 believe tick w0-1/s 1 0\n50 believe tick w1-1/s 2 0", "one owner"),
    ("an owner past its own deadline is taken at its word",
     "1000 believe lead w2-1/c 7 1100\n1300 believe lead w2-1/c 7 1100\n"
     "1200 believe lead w0-2/c 8 1290", "one owner"),
    ("a command outlives its lease",
     "10 alive lock p0-1/9 1\n90 alive lock p0-1/9 1\n80 alive lock p1-1/8 2", "one owner"),
    ("two processes of one command", "10 alive lock p0-1/9 1\n90 alive lock p0-1/9 1\n"
     "20 alive lock p0-1/10 1\n95 alive lock p0-1/10 1", None),
    ("what left the group of a command outlives a program that was killed",
     "10 alive lock p0-1/9+ 1\n50 killed p0-1\n90 alive lock p0-1/9+ 1\n80 alive lock p1-1/8 2", None),
    ("a command outlives a program that was killed",
     "10 alive lock p0-1/9 1\n50 killed p0-1\n75 alive lock p0-1/9 1\n90 alive lock p0-1/9 1\n"
     "80 alive lock p1-1/8 2", "one owner"),
    ("an overlap after the store lost its data is excused",
     "790 excuse overlap\n800 believe lead w2-1/c 7 850\n890 unexcuse overlap", None),
    ("an overlap after the excuse is not",
     "700 excuse overlap\n790 unexcuse overlap\n800 believe lead w2-1/c 7 850", "one owner"),
    ("an overlap that is excused, and longer than a lease",
     "2000 excuse overlap\n2001 believe lead w2-1/c 7 3100\n2005 believe lead w0-2/c 8 3200", "one owner"),
    ("an overlap of a fail-over", "2000 excuse split\n2001 believe lead w2-1/c 7 2600\n2100 believe lead w0-2/c 8 2900",
     None),
    ("overlaps of a fail-over without end",
     "2000 excuse split\n2001 believe lead w2-1/c 7 2300\n2100 believe lead w0-2/c 8 2200\n"
     "2400 believe lead w2-1/c 9 2700\n2500 believe lead w0-2/c 10 2600\n"
     "2800 believe lead w2-1/c 11 3300\n3000 believe lead w0-2/c 12 3200\n"
     "3600 believe lead w2-1/c 13 4400\n3700 believe lead w0-2/c 14 4300", "one owner"),
    ("overlaps of a fail-over and of the next, to the old master",
     "2000 excuse split\n2001 believe lead w2-1/c 7 2900\n2100 believe lead w0-2/c 8 2800\n"
     "3300 believe lead w0-2/c 9 3800\n3400 believe lead w2-1/c 10 3500", None),
    ("overlaps of two fail-overs",
     "2000 excuse split\n2001 believe lead w2-1/c 7 2300\n2100 believe lead w0-2/c 8 2200\n"
     "4400 believe lead w2-1/c 9 4700\n4500 believe lead w0-2/c 10 4600", None),
    ("one token on two servers",
     "2000 excuse split\n2001 believe lead w2-1/c 7 2600\n2100 believe lead w0-2/c 7 2900", "tokens grow"),
    ("an overlap of equal ids", "2000 equal e1-1\n2001 believe lead e1-1/c 7 2600\n2100 believe lead e2-1/c 8 2900",
     None),
    ("an overlap of equal ids without end",
     "2000 equal e1-1\n2001 believe lead e1-1/c 7 3600\n2100 believe lead e2-1/c 8 3900", "one owner"),
    ("an overlap of others while there are equal ids",
     "2000 equal e1-1\n2001 believe lead w2-1/c 7 2600\n2100 believe lead w0-2/c 8 2900", "one owner"),
    ("a store that serves cannot be reached",
     LED + "8500 unreachable lock w0-1/l -30\n12000 undemand reach", "within reach"),
    ("the program cannot reach a store that serves", LED + "8500 exit p0-2 69\n12000 undemand reach",
     "within reach"),
    ("a store that does not serve yet", LED + "3500 exit p0-2 69\n12000 undemand reach", None),
    ("another fault strikes a store that serves",
     "2000 demand reach\n2000 fault isolate-master 10 r0\n3000 fault kill-server 1 r1\n4000 healed kill-server\n"
     "12000 undemand reach\n12000 healed isolate-master", None),
    ("a store that serves, and nobody leads", "2000 demand reach\n12000 undemand reach", "within reach"),
    ("a token that goes back", "1500 believe lead w2-1/c 4 1600", "tokens grow"),
    ("a token that is given twice", "1500 believe lead w2-1/c 6 1600", "tokens grow"),
    ("tokens that begin anew with the store",
     "1400 excuse tokens\n1500 believe lead w2-1/c 1 1600\n1700 unexcuse tokens\n"
     "1800 believe lead w0-2/c 2 1900", None),
    ("tokens that begin anew, seen later",
     "1400 excuse tokens\n1700 unexcuse tokens\n1800 believe lead w0-2/c 2 1900", None),
    ("tokens that go back after they began anew",
     "1400 excuse tokens\n1700 unexcuse tokens\n1800 believe lead w0-2/c 2 1900\n"
     "2000 believe lead w2-1/c 1 2100", "tokens grow"),
    ("on_acquired twice", "5 begin-acquired lead w0-1/c 6", "callbacks alternate"),
    ("on_released without on_acquired", "1000 begin-released lead w2-1/c", "callbacks alternate"),
    ("a callback after the stop has returned",
     "455 begin-acquired lead w0-1/c 7", "callbacks alternate"),
    ("a stop that returns while on_released runs",
     "1000 starting lead w3-1/c\n1001 begin-acquired lead w3-1/c 9\n1002 stopped lead w3-1/c 0",
     "callbacks alternate"),
    ("a callback that is quicker than the return of the start",
     "1000 starting lead w3-1/c\n1001 stopped lead w3-1/c 0\n1002 starting lead w3-1/c\n"
     "1003 begin-acquired lead w3-1/c 9\n1004 started lead w3-1/c 0", None),
    ("a stop that was given up drops on_released",
     "1000 starting lead w3-1/c\n1001 begin-acquired lead w3-1/c 9\n1002 end-acquired lead w3-1/c\n"
     "1003 stopped lead w3-1/c -11\n1004 starting lead w3-1/c\n1005 begin-acquired lead w3-1/c 9", None),
    ("a release within the lease is told lost",
     "1000 believe lock w2-1/l 7 2000\n1100 yield lock w2-1/l\n1150 unlocked lock w2-1/l -20", "no false loss"),
    ("a release past the lease is told lost",
     "1000 believe lock w2-1/l 7 1140\n1100 yield lock w2-1/l\n1150 unlocked lock w2-1/l -20\n"
     "1160 believe lock w2-1/l 9 2100\n1170 yield lock w2-1/l\n1180 unlocked lock w2-1/l 0", None),
    ("a stop within the lease is told lost",
     "1000 believe lead w2-1/c 7 2000\n1100 yield lead w2-1/c\n1150 stopped lead w2-1/c -20", "no false loss"),
    ("a release is told lost after the store lost its data",
     "1000 believe lock w2-1/l 7 2000\n1050 excuse tokens\n1060 unexcuse tokens\n1100 yield lock w2-1/l\n"
     "1150 unlocked lock w2-1/l -20", None),
    ("a set of which one was over is told lost",
     GROUPS + "1120 believe b w2-1/m 8 1180\n1120 believe c w2-1/m 9 1900\n1170 yield b w2-1/m\n1170 yield c w2-1/m\n"
     "1190 unlocked set w2-1/m -20", None),
    ("the resource takes a lower token", "480 write lead 5 w0-1/c 3", "fenced resource"),
    ("the resource refuses a lower token", "480 refuse-write lead 5 w0-1/c", None),
    ("an update is lost", "480 write lead 6 w0-1/c 2", "fenced resource"),
    ("nobody leads after healing", "990 unled lead 20", "leader after healing"),
    ("a thread is left", "990 left 1 0", "nothing left"),
    ("a descriptor is left", "990 left 0 2", "nothing left"),
    ("a key is left", "990 remains simba:{lead}", "nothing left"),
    ("a worker crashes", "990 exit w1-1 -11", "orderly ends"),
    ("a worker without memory crashes", "980 excuse crash\n990 exit w1-1 -6\n995 unexcuse crash", None),
    ("the program ends with a code that it does not have", "990 exit p0-2 64", "orderly ends"),
    ("the program is refused while a password is changed",
     "980 excuse denied\n990 exit p0-2 77\n995 unexcuse denied", None),
    ("the program is refused", "990 exit p0-2 77", "orderly ends"),
    ("a forked child owns", "990 forked 256", "orderly ends"),
    ("slots and sets", GROUPS + "1200 believe seats#0 w2-1/n 4 1900\n1200 believe b w1-1/m 8 1900", None),
    ("two have one slot", GROUPS + "1030 yield seats#1 w1-1/n\n1050 believe seats#0 w2-1/n 4 1090", "one owner"),
    ("a slot is had past the kill of another's owner",
     GROUPS + "1300 killed w1-1\n1400 believe seats#1 w2-1/n 6 1800", None),
    ("a slot beyond the number of slots", GROUPS + "1200 believe seats#2 w2-1/n 1 1900", "no more than the slots"),
    ("three believe, of two slots, each in a slot of its own",
     GROUPS + "1050 believe seats#2 w2-1/n 1 1090", "no more than the slots"),
    ("two sets have one mutex", GROUPS + "1050 believe b w1-1/m 8 1090", "one owner"),
    ("a set is held without one of its mutexes", GROUPS + "1050 partial b w0-1/m", "all of a set"),
    ("a member never gets its turn", GROUPS + "1600 unserved w2-1/m 20", "turn after healing"),
    ("a mutex that was in no set", GROUPS + "1 sets c", "something shown"),
    ("a line that a kill has cut off", "990 believe lead w2-1/c 7 99", None),
]


def tell(story):
    """The events of a story: milliseconds become nanoseconds, deadlines too."""
    lines = []
    for line in story.strip().splitlines():
        words = line.split()
        words[0] = str(int(words[0]) * MS)
        if words[1] == "believe":
            words[5] = str(int(words[5]) * MS)
        lines.append(" ".join(words) + "\n")
    return sorted(parse(lines), key=lambda event: event.at)


def cases():
    """The name of each case, and what is wrong with it."""
    for name, added, rule in STORIES:
        history = History(tell(GOOD + added))
        broken = sorted({breach.rule for breach in judge(history)})
        expected = [rule] if rule else []
        yield name, None if broken == expected else f"breaks {broken}, and not {expected}"
    silent = {breach.rule for breach in judge(History(tell("0 starting lead w0-1/c")))}
    yield "a run that shows nothing", None if silent == {"something shown"} else f"breaks {silent}"
    history = History(tell(GOOD + "300 fault drop 1.0 w0\n500 healed drop\n800 believe lead w2-1/c 7 850"))
    gaps = list(gaps_after_healing(History(tell(
        "0 believe lead w0-1/c 4 90\n50 fault drop 1.0 w0\n60 fault delay 1.0 w1\n100 healed drop\n"
        "120 healed delay\n200 believe lead w1-1/c 5 300\n210 fault drop 1.0 w0\n220 healed drop"))))
    yield "the time from the last healing to the next owner", None if gaps == [0.08] else f"is {gaps}"
    picture = draw(history, judge(history))
    missing = [word for word in ("drop of w0", "token 4", "one owner: ", "lead w1") if word not in picture]
    yield "the timeline shows terms, faults and breaches", f"without {missing}" if missing else None


def main():
    number = failed = 0
    for number, (name, trouble) in enumerate(cases(), 1):
        print(f"{'not ok' if trouble else 'ok'} {number} - {name}")
        if trouble:
            failed += 1
            print(f"# {trouble}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

----------------------------- MODULE SimbaTrace -----------------------------
(***************************************************************************)
(* Whether a run of the simulator, so of the machines that ship, is a run  *)
(* of the specification. spec/replay writes the run into the module        *)
(* TraceLog: one entry for each thing that happened, with what was seen    *)
(* afterwards. Each entry must be possible as an action of Simba, and must *)
(* lead to what was seen. One unit of time is a millisecond.               *)
(***************************************************************************)
EXTENDS Simba, TraceLog

VARIABLE at \* the next entry

Entry == Log[at]
Stays == UNCHANGED vars

Sends(c) ==
    CASE Entry.op = "ACQUIRE" -> SendAcquire(c)
      [] Entry.op = "GUARD" -> SendGuard(c) /\ asks'[c].names = Entry.names
      [] Entry.op = "RELEASE" ->
            IF Entry.awaited /\ IsIdle(c) /\ ~Believes(c) /\ Entry.names # 0
               /\ mind[c].back = Entry.names
            THEN SendRelease(c) ELSE GiveBackLate(c, Entry.names)

\* Each request may come twice, so it stays on the wire.
Meant(c) ==
    {q \in wire : q.op = Entry.op /\ q.from = c /\ q.names = Entry.names
                  /\ (q.live = Entry.awaited \/ q.op = "RELEASE")}
Applies(c) ==
    /\ \E q \in Meant(c) :
          /\ q.live \/ \A o \in Meant(c) : ~o.live
          /\ CarryOut(q) /\ UNCHANGED wire
    /\ LET r == record'["master"] IN
       IF Entry.owner = Nobody THEN OwnerAt(r, 0) = Nobody
       ELSE r.owner = Entry.owner /\ r.token = Entry.token /\ r.left = Entry.left

Kind == CASE Entry.answer = "MINE" -> "mine" [] Entry.answer = "OTHER" -> "other"
          [] Entry.answer = "NOBODY" -> "free"
Takes(c) ==
    IF ~Entry.awaited \/ asks[c].op # Entry.op THEN Stays
    ELSE IF Entry.answer \in {"FAILED", "UNKNOWN"} THEN GiveUp(c)
    ELSE /\ TakeAnswer(c)
         /\ Entry.op # "RELEASE" => asks[c].answer.kind = Kind

Seen(c) ==
    /\ Stays
    /\ mind[c].left = Max(Entry.left, 0)
    /\ Entry.left > 0 => mind[c].token = Entry.token

Happens ==
    LET c == Entry.of IN
    CASE Entry.do = "time" -> Elapse(Entry.store, Entry.own)
      [] Entry.do = "send" -> Sends(c)
      [] Entry.do = "apply" -> Applies(c)
      [] Entry.do = "take" -> Takes(c)
      [] Entry.do = "mind" -> Seen(c)
      [] Entry.do = "stop" -> IF IsStoppable(c) THEN Stop(c) ELSE Stays
      [] Entry.do = "stopped" -> IF asks[c] # NoAsk THEN GiveUp(c) ELSE Stays
      [] Entry.do = "abandon" -> IF ENABLED Abandon(c) THEN Abandon(c) ELSE Stays
      [] Entry.do = "crash" -> Crash(c)
      [] Entry.do = "restart" -> Restart(c)

\* What the machine learns of its rival by a READ is no entry.
RivalsGone == {c \in Contender : mind[c].rival /\ OwnerAt(record["master"], 0) # Id[c]}

TraceNext ==
    /\ at <= Len(Log)
    /\ IF RivalsGone # {} THEN (\E c \in RivalsGone : RivalIsGone(c)) /\ UNCHANGED at
       ELSE Happens /\ at' = at + 1

TraceSpec == Init /\ at = 1 /\ [][TraceNext]_<<vars, at>>

\* TLC shows that the whole run is possible by breaking this.
NotDone == at <= Len(Log)
=============================================================================

------------------------------- MODULE Simba -------------------------------
(***************************************************************************)
(* One mutex on a store of leases (SQLite, PostgreSQL, MySQL, Redis,       *)
(* memory), its contenders, and the network between them.                  *)
(*                                                                         *)
(* How to read it: the variables are the whole state. Each action is one   *)
(* thing that can happen; x' is the value of x after it. TLC tries all     *)
(* actions in all orders, in all states that it can reach.                 *)
(*                                                                         *)
(*   contender            network                 store                    *)
(*   Send... ------------> wire -----------------> CarryOut (now, later,   *)
(*   TakeAnswer, GiveUp <- asks[c].answer <-------          twice, never)  *)
(*                                                                         *)
(* Time passes in Elapse only, so an action takes no time. A pause needs   *)
(* no action: it is a stretch in which a contender does nothing.           *)
(*                                                                         *)
(* Left out: READ (it changes nothing), callbacks, and the revision that a *)
(* row counts beside its token. A record is named by its token here.       *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Contender,  \* who contends
    Nobody,
    Id,         \* Id[c]: what the store knows contender c by
    Ttl, Transition, Margin,  \* the lease, and how much earlier its owner stops believing
    Tokens,     \* bound: the largest token
    Old,        \* bound: requests of a contender on the wire when it sends another one
    Waits,      \* bound: how long before it is carried out a request may get its time stamp
    Reserve,    \* how long a free mutex is reserved for the first waiter; 0: there is no queue
    Breaches,   \* bound: how often an assumption is broken
    Assume,     \* which assumptions of docs/guide/guarantees.md hold: a subset of "A1" to "A5"
    Faults,     \* what happens: "lost", "repeated", "crash", "stop", "deposed", "write",
                \* "hand-over", "late answers", "heal"; "timed": a waiter comes when a lease is over
    Bugs        \* rules of the code that are left out, by name

VARIABLES
    record,     \* record[s]: what server s has: owner, token, left (time until its lease ends)
    counter,    \* the last token that the store gave
    queue,      \* ids that wait, in order
    reserved,   \* whom a free mutex waits for, and for how long
    wire,       \* requests that may still reach the store
    asks,       \* asks[c]: the request whose answer c waits for
    mind,       \* mind[c]: what c believes
    server,     \* server[c]: the server that c talks to
    unconfirmed,\* how long ago, by c's clock, that server was last known to be the master
    healed,     \* the faults are over
    breaches,   \* assumptions broken so far
    resource,   \* the fenced resource: the term of the last write that it took
    seen        \* what the properties remember: nothing here decides anything

vars == <<record, counter, queue, reserved, wire, asks, mind, server, unconfirmed, healed,
          breaches, resource, seen>>

Lease == Ttl + Transition
Drift == IF "A1" \in Assume THEN Margin ELSE 2 * Margin

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

NoRecord == [owner |-> Nobody, token |-> 0, left |-> 0, epoch |-> 0]
NoAnswer == [kind |-> "none", token |-> 0, left |-> 0, epoch |-> 0, extra |-> 0]
NoAsk == [op |-> "none", names |-> 0, wanted |-> TRUE, age |-> 0, lag |-> 0, answer |-> NoAnswer]
Confirmed == [age |-> 0, lag |-> 0]
AnyOne == -1  \* what a request names that names nothing in particular
NotReserved == [id |-> Nobody, left |-> 0]

\* left: how long c still believes. lag: by how much its clock has fallen behind the store's
\* since the request was sent. token, epoch: of its last term. back: the token of a record that
\* it gives back; 0: none. due: when it tries again.
NewMind == [up |-> TRUE, left |-> 0, lag |-> 0, token |-> 0, epoch |-> 0, back |-> 0,
            rival |-> FALSE, due |-> 0]

DistinctIds == [c \in Contender |-> c]
EqualIds == [c \in Contender |-> CHOOSE d \in Contender : TRUE]
Symmetry == Permutations(Contender)

Init ==
    /\ record = [s \in {"master", "deposed"} |-> NoRecord]
    /\ counter = 0
    /\ queue = <<>>
    /\ reserved = NotReserved
    /\ wire = {}
    /\ asks = [c \in Contender |-> NoAsk]
    /\ mind = [c \in Contender |-> NewMind]
    /\ server = [c \in Contender |-> "master"]
    /\ unconfirmed = [c \in Contender |-> Confirmed]
    /\ healed = FALSE
    /\ breaches = 0
    /\ resource = [token |-> 0, epoch |-> 0, of |-> Nobody]
    /\ seen = [largest |-> 0, grew |-> TRUE, damaged |-> FALSE, epoch |-> 0,
               over |-> [c \in Contender |-> 0]]

Believes(c) == mind[c].left > 0
Overlap == \E a, b \in Contender : a # b /\ Believes(a) /\ Believes(b)

\* Its term is remembered only where a late write may need it.
Over(m) ==
    IF "write" \in Faults THEN [m EXCEPT !.left = 0, !.lag = 0]
    ELSE [m EXCEPT !.left = 0, !.lag = 0, !.token = 0, !.epoch = 0]
Lost(c) == Over(mind[c])

(***************************************************************************)
(* A contender sends.                                                      *)
(***************************************************************************)
HasRoom(c) == Cardinality({q \in wire : q.from = c}) <= Old
IsIdle(c) == mind[c].up /\ asks[c] = NoAsk

Send(c, op, names) ==
    /\ IsIdle(c) /\ HasRoom(c)
    /\ wire' = wire \union {[op |-> op, from |-> c, names |-> names, live |-> TRUE, stamp |-> -1]}
    /\ asks' = [asks EXCEPT ![c] = [NoAsk EXCEPT !.op = op, !.names = names]]

\* What is given back is released before anything else is asked for.
SendAcquire(c) ==
    /\ ~Believes(c) /\ mind[c].back = 0 /\ ~mind[c].rival /\ mind[c].due = 0
    /\ Send(c, "ACQUIRE", 0)
    /\ UNCHANGED <<record, counter, queue, reserved, mind, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* From ttl_at on, and while on_released of a stop runs. A GUARD names the term that it renews.
IsTimeToGuard(c) == Believes(c) /\ mind[c].left <= Transition - Margin
SendGuard(c) ==
    /\ IsTimeToGuard(c) \/ ("hand-over" \in Faults /\ ~Believes(c) /\ mind[c].back # 0)
    /\ Send(c, "GUARD", IF "guard names no term" \in Bugs THEN AnyOne
                        ELSE IF Believes(c) THEN mind[c].token ELSE mind[c].back)
    /\ UNCHANGED <<record, counter, queue, reserved, mind, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* A RELEASE names the record that it ends.
SendRelease(c) ==
    /\ ~Believes(c) /\ mind[c].back # 0
    /\ Send(c, "RELEASE", IF "release without a revision" \in Bugs THEN AnyOne ELSE mind[c].back)
    /\ UNCHANGED <<record, counter, queue, reserved, mind, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* The application stops an owner, which gives its record back; or a waiter, which does not believe
\* in a grant that is still to come.
IsStoppable(c) == Believes(c) \/ (asks[c].op = "ACQUIRE" /\ asks[c].wanted)
Stop(c) ==
    /\ "stop" \in Faults /\ ~healed
    /\ IsStoppable(c)
    /\ mind' = IF Believes(c) THEN [mind EXCEPT ![c] = [Lost(c) EXCEPT !.back = mind[c].token]]
               ELSE mind
    /\ asks' = [asks EXCEPT ![c].wanted = asks[c].op # "ACQUIRE"]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* A stop that takes too long leaves its record, which runs out by itself.
Abandon(c) ==
    /\ "hand-over" \in Faults /\ ~Believes(c)
    /\ mind[c].back # 0 \/ mind[c].rival
    /\ mind' = [mind EXCEPT ![c].back = 0, ![c].rival = FALSE]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, server, unconfirmed, healed,
                   breaches, resource, seen>>

\* A late answer to an older start tells of a record. It is given back, unless it is that of the
\* term that runs; token 0: it only leaves the queue. Nobody waits for the answer to that.
GiveBackLate(c, token) ==
    /\ mind[c].up /\ HasRoom(c)
    /\ Believes(c) => token # mind[c].token
    /\ wire' = wire \union {[op |-> "RELEASE", from |-> c, names |-> token, live |-> FALSE,
                              stamp |-> -1]}
    /\ UNCHANGED <<record, counter, queue, reserved, asks, mind, server, unconfirmed, healed,
                   breaches, resource, seen>>

(***************************************************************************)
(* The store carries a request out. `a` is how long before that it got its *)
(* time stamp: a statement that waits behind a lock may keep the time at   *)
(* which it began.                                                         *)
(***************************************************************************)
Stamp(q) ==
    /\ q \in wire /\ q.stamp = -1 /\ Waits > 0 /\ ~healed
    /\ wire' = (wire \ {q}) \union {[q EXCEPT !.stamp = 0]}
    /\ UNCHANGED <<record, counter, queue, reserved, asks, mind, server, unconfirmed, healed,
                   breaches, resource, seen>>

OwnerAt(r, a) == IF r.left + a > 0 THEN r.owner ELSE Nobody
Without(id, ids) == SelectSeq(ids, LAMBDA i : i # id)
Joined(id, ids) ==
    IF Reserve = 0 \/ \E i \in 1..Len(ids) : ids[i] = id THEN ids ELSE Append(ids, id)

\* What the answer says. Mine counts from the stamp, and never lasts longer than was asked for.
AnswerTo(c, r, a) ==
    LET owner == OwnerAt(r, a) IN
    IF owner = Nobody THEN [NoAnswer EXCEPT !.kind = "free"]
    ELSE IF owner # Id[c] THEN [NoAnswer EXCEPT !.kind = "other", !.left = Max(r.left, 0)]
    ELSE [kind |-> "mine", token |-> r.token, left |-> Min(r.left + a, Lease), epoch |-> r.epoch,
          extra |-> IF server[c] = "deposed" /\ "a deposed server counts" \notin Bugs
                    THEN Max(unconfirmed[c].age - asks[c].age, 0) ELSE 0]

\* The answer is on its way to a sender that still waits for it.
Answer(q, answer) ==
    asks' = CASE ~q.live -> asks
              [] answer.kind = "mine" -> [asks EXCEPT ![q.from].answer = answer]
              [] OTHER -> [asks EXCEPT ![q.from].answer = answer, ![q.from].age = 0,
                                       ![q.from].lag = 0]

\* No change shortens a lease of the same id.
Renewed(r, a) ==
    IF "a late statement shortens" \in Bugs THEN Lease - a ELSE Max(r.left, Lease - a)

Grant(q, s, a) ==
    LET r == record[s]
        c == q.from
        granted == [owner |-> Id[c], token |-> counter + 1, epoch |-> seen.epoch,
                    left |-> IF r.owner = Id[c] THEN Renewed(r, a) ELSE Lease - a]
    IN
    /\ counter < Tokens
    /\ counter' = counter + 1
    /\ record' = [record EXCEPT ![s] = granted]
    /\ reserved' = NotReserved
    /\ queue' = Without(Id[c], queue)
    /\ seen' = [seen EXCEPT !.grew = @ /\ counter + 1 > seen.largest,
                            !.largest = Max(@, counter + 1)]
    /\ Answer(q, AnswerTo(c, granted, a))
    /\ UNCHANGED mind

Acquire(q, s, a) ==
    LET r == record[s]
        c == q.from
        owner == OwnerAt(r, a)
        kept == owner = Nobody /\ reserved.left > 0 /\ reserved.id # Id[c]
    IN
    IF owner \in {Nobody, Id[c]} /\ ~kept THEN Grant(q, s, a)
    ELSE /\ Answer(q, IF kept THEN [NoAnswer EXCEPT !.kind = "free", !.left = reserved.left]
                      ELSE AnswerTo(c, r, a))
         /\ queue' = Joined(Id[c], queue)
         /\ UNCHANGED <<record, counter, reserved, mind, seen>>

Guard(q, s, a) ==
    LET r == record[s]
        c == q.from
        hits == OwnerAt(r, a) = Id[c] /\ q.names \in {AnyOne, r.token}
        after == IF hits THEN [r EXCEPT !.left = Renewed(r, a)] ELSE r
    IN
    /\ record' = [record EXCEPT ![s] = after]
    /\ Answer(q, AnswerTo(c, after, a))
    /\ UNCHANGED <<counter, queue, reserved, mind, seen>>

\* The first waiter is told, if the message gets through, and the mutex is reserved for it.
Wake(ids) ==
    LET first == Head(ids) IN
    /\ queue' = Tail(ids)
    /\ reserved' = [id |-> first, left |-> Reserve]
    /\ \/ UNCHANGED mind
       \/ mind' = [c \in Contender |->
                      IF Id[c] = first /\ mind[c].up THEN [mind[c] EXCEPT !.due = 0] ELSE mind[c]]

Release(q, s, a) ==
    LET r == record[s]
        c == q.from
        hits == r.owner = Id[c] /\ q.names \in {AnyOne, r.token}
        others == Without(Id[c], queue)
        passes == s = "master" /\ others # <<>>
                  /\ (hits \/ (r.owner = Nobody /\ reserved.left > 0 /\ reserved.id = Id[c]))
    IN
    /\ record' = IF hits THEN [record EXCEPT ![s] = NoRecord] ELSE record
    /\ IF passes THEN Wake(others) ELSE queue' = others /\ UNCHANGED <<reserved, mind>>
    /\ Answer(q, [NoAnswer EXCEPT !.kind = "done"])
    /\ UNCHANGED <<counter, seen>>

CarryOut(q) ==
    LET s == server[q.from]
        a == Max(q.stamp, 0)
    IN
    /\ q \in wire
    /\ \/ wire' = wire \ {q}
       \/ "repeated" \in Faults /\ ~healed /\ UNCHANGED wire
    /\ CASE q.op = "ACQUIRE" -> Acquire(q, s, a)
         [] q.op = "GUARD" -> Guard(q, s, a)
         [] q.op = "RELEASE" -> Release(q, s, a)
    /\ UNCHANGED <<server, unconfirmed, healed, breaches, resource>>

(***************************************************************************)
(* A contender takes its answer in, or gives up waiting.                   *)
(***************************************************************************)
\* How long c may believe, by its own clock. The lease counts from the sending of the request, or
\* from the last confirmation of a server that may be deposed.
Until(c) ==
    LET answer == asks[c].answer IN
    answer.left - Margin -
        (IF "lease from the reply" \in Bugs THEN 0 ELSE asks[c].age + answer.extra)

Begin(c) ==
    IF Until(c) > 0 /\ asks[c].wanted
    THEN [mind[c] EXCEPT !.left = Until(c), !.lag = asks[c].lag, !.token = asks[c].answer.token,
                         !.epoch = asks[c].answer.epoch]
    ELSE [mind[c] EXCEPT !.back = asks[c].answer.token]

Renew(c) ==
    IF Until(c) > 0 THEN [mind[c] EXCEPT !.left = Until(c), !.lag = asks[c].lag]
    ELSE Lost(c)

\* A waiter comes again when the lease, or the reservation, that it knows of is over.
Later(c) == IF "waits for a notice only" \in Bugs THEN Lease * 2 ELSE asks[c].answer.left
Waiting(c) == [mind[c] EXCEPT !.due = IF "timed" \in Faults THEN Later(c) ELSE 0]

AfterAnswer(c) ==
    LET ask == asks[c]
        answer == ask.answer
        sameTerm == answer.token = ask.names \/ "guard names no term" \in Bugs
    IN
    CASE ask.op = "ACQUIRE" /\ answer.kind = "mine" -> Begin(c)
      [] ask.op = "ACQUIRE" /\ answer.kind # "mine" -> Waiting(c)
      [] ask.op = "GUARD" /\ answer.kind = "mine" /\ sameTerm /\ Believes(c) -> Renew(c)
      [] ask.op = "GUARD" /\ answer.kind = "mine" /\ sameTerm /\ ~Believes(c) ->
            [mind[c] EXCEPT !.back = answer.token]
      [] ask.op = "GUARD" /\ answer.kind = "mine" /\ ~sameTerm -> [Lost(c) EXCEPT !.rival = TRUE]
      [] ask.op = "GUARD" /\ answer.kind # "mine" -> Lost(c)
      [] ask.op = "RELEASE" -> [mind[c] EXCEPT !.back = 0]

Forgotten(c) == {IF q.from = c THEN [q EXCEPT !.live = FALSE] ELSE q : q \in wire}

TakeAnswer(c) ==
    /\ mind[c].up /\ asks[c].answer.kind # "none"
    /\ mind' = [mind EXCEPT ![c] = AfterAnswer(c)]
    /\ asks' = [asks EXCEPT ![c] = NoAsk]
    /\ wire' = Forgotten(c)
    /\ UNCHANGED <<record, counter, queue, reserved, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* The request may still be carried out. A RELEASE is sent again by a stop, and not otherwise.
GiveUp(c) ==
    /\ mind[c].up /\ asks[c] # NoAsk
    /\ "lost" \in Faults
    /\ healed => asks[c].answer.kind = "none" /\ ~\E q \in wire : q.from = c /\ q.live
    /\ asks' = [asks EXCEPT ![c] = NoAsk]
    /\ wire' = Forgotten(c)
    /\ \/ UNCHANGED mind
       \/ asks[c].op = "RELEASE" /\ mind' = [mind EXCEPT ![c].back = 0]
    /\ UNCHANGED <<record, counter, queue, reserved, server, unconfirmed, healed, breaches,
                   resource, seen>>

\* A READ has found that the rival with the same id is gone.
RivalIsGone(c) ==
    /\ mind[c].rival /\ OwnerAt(record[server[c]], 0) # Id[c]
    /\ mind' = [mind EXCEPT ![c].rival = FALSE]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, server, unconfirmed, healed,
                   breaches, resource, seen>>

(***************************************************************************)
(* Time.                                                                   *)
(***************************************************************************)
\* After the faults nothing dawdles: what is due happens before time passes.
IsCalm ==
    /\ wire = {}
    /\ \A c \in Contender : mind[c].up =>
          /\ asks[c] = NoAsk
          /\ mind[c].back = 0
          /\ Believes(c) \/ mind[c].due > 0
          /\ ~IsTimeToGuard(c)

\* Only a request whose answer may still begin or stretch a belief has an age.
IsTimed(ask) ==
    /\ ask.op \in {"ACQUIRE", "GUARD"}
    /\ ask.answer.kind \in {"none", "mine"}
    /\ ask.age < Lease - Margin

AskLater(ask, d, own) ==
    IF ~IsTimed(ask) THEN ask
    ELSE IF ask.age + own >= Lease - Margin THEN [ask EXCEPT !.age = Lease - Margin, !.lag = 0]
    ELSE [ask EXCEPT !.age = @ + own, !.lag = @ + d - own]

MindLater(m, d, own) ==
    LET after == IF m.left > own THEN [m EXCEPT !.left = @ - own, !.lag = @ + d - own] ELSE Over(m)
    IN [after EXCEPT !.due = Max(@ - own, 0)]

UnconfirmedLater(u, d, own) ==
    IF u.age + own >= Lease - Margin THEN [age |-> Lease - Margin, lag |-> 0]
    ELSE [age |-> u.age + own, lag |-> u.lag + d - own]

\* The store has another term. What c itself has on the master does not harm it on another server.
IsOver(c) ==
    /\ record["master"].owner \notin {Nobody} \union (IF server[c] = "master" THEN {} ELSE {Id[c]})
    /\ \/ record["master"].token # mind[c].token
       \/ record["master"].epoch # mind[c].epoch

\* `d` passes on the store's clock, own[c] on that of c. During one lease, from the sending of the
\* request to the end of the belief, they drift apart by at most Drift.
Elapse(d, own) ==
    /\ healed => IsCalm
    /\ asks' = [c \in Contender |-> AskLater(asks[c], d, own[c])]
    /\ mind' = [c \in Contender |-> MindLater(mind[c], d, own[c])]
    /\ unconfirmed' = [c \in Contender |->
          IF server[c] = "deposed" THEN UnconfirmedLater(unconfirmed[c], d, own[c]) ELSE Confirmed]
    /\ \A c \in Contender :
          /\ asks'[c].lag <= Drift
          /\ mind'[c].lag <= Drift
          /\ unconfirmed'[c].lag <= Drift
    /\ record' = [s \in DOMAIN record |->
          LET left == record[s].left - d IN
          IF record[s].owner = Nobody \/ left <= -Waits THEN NoRecord
          ELSE [record[s] EXCEPT !.left = left]]
    /\ reserved' =
          IF "reservation without an end" \in Bugs THEN reserved
          ELSE IF reserved.left <= d THEN NotReserved ELSE [reserved EXCEPT !.left = @ - d]
    /\ wire' = {IF q.stamp = -1 THEN q ELSE [q EXCEPT !.stamp = Min(@ + d, Waits)] : q \in wire}
    /\ seen' = [seen EXCEPT !.over = [c \in Contender |->
          IF Believes(c)' /\ IsOver(c) THEN Min(@[c] + d, Lease + 1) ELSE 0]]
    /\ UNCHANGED <<counter, queue, server, healed, breaches, resource>>

\* A clock that runs fast ends its belief earlier, so only slow ones are tried.
Tick ==
    \E slow \in SUBSET {c \in Contender : IsTimed(asks[c]) \/ Believes(c)} :
        /\ healed => slow = {}
        /\ Elapse(1, [c \in Contender |-> IF c \in slow THEN 0 ELSE 1])

(***************************************************************************)
(* Faults.                                                                 *)
(***************************************************************************)
\* Before it makes room for another one, a lost request is one that is never carried out.
Lose(q) ==
    /\ q \in wire /\ "lost" \in Faults
    /\ IF healed THEN ~q.live ELSE ~HasRoom(q.from)
    /\ wire' = wire \ {q}
    /\ UNCHANGED <<record, counter, queue, reserved, asks, mind, server, unconfirmed, healed,
                   breaches, resource, seen>>

\* A process ends. What it has sent stays on its way, and a write that it began can still come.
Crash(c) ==
    /\ "crash" \in Faults /\ ~healed /\ mind[c].up
    /\ mind' = [mind EXCEPT ![c] = [NewMind EXCEPT !.up = FALSE, !.token = mind[c].token,
                                                   !.epoch = mind[c].epoch]]
    /\ asks' = [asks EXCEPT ![c] = NoAsk]
    /\ wire' = Forgotten(c)
    /\ UNCHANGED <<record, counter, queue, reserved, server, unconfirmed, healed, breaches,
                   resource, seen>>

Restart(c) ==
    /\ ~healed /\ ~mind[c].up
    /\ mind' = [mind EXCEPT ![c].up = TRUE]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, server, unconfirmed, healed,
                   breaches, resource, seen>>

Heal ==
    /\ "heal" \in Faults /\ ~healed
    /\ \E c \in Contender : mind[c].up
    /\ healed' = TRUE
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, mind, server, unconfirmed,
                   breaches, resource, seen>>

\* Another server becomes the master, with all that the old one has. Some clients do not hear of it.
Depose ==
    /\ "deposed" \in Faults /\ breaches < Breaches /\ record["deposed"] = NoRecord
    /\ breaches' = breaches + 1
    /\ record' = [record EXCEPT !["deposed"] = record["master"]]
    /\ server' \in [Contender -> {"master", "deposed"}]
    /\ UNCHANGED <<counter, queue, reserved, wire, asks, mind, unconfirmed, healed, resource, seen>>

HearOfMaster(c) ==
    /\ server[c] = "deposed"
    /\ server' = [server EXCEPT ![c] = "master"]
    /\ unconfirmed' = [unconfirmed EXCEPT ![c] = Confirmed]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, mind, healed, breaches, resource,
                   seen>>

(***************************************************************************)
(* Assumptions that do not hold. A1 is the bound on drift, A4 is Id.       *)
(***************************************************************************)
MayBreak(assumption) == assumption \notin Assume /\ breaches < Breaches

\* A2: the store's clock is stepped ahead.
StepClock ==
    /\ MayBreak("A2")
    /\ breaches' = breaches + 1
    /\ record' = [s \in DOMAIN record |->
          IF record[s].left <= 2 THEN NoRecord ELSE [record[s] EXCEPT !.left = @ - 2]]
    /\ UNCHANGED <<counter, queue, reserved, wire, asks, mind, server, unconfirmed, healed,
                   resource, seen>>

\* A3: the store forgets the lease. All but Redis also count tokens from the beginning again.
Forget ==
    /\ MayBreak("A3")
    /\ breaches' = breaches + 1
    /\ record' = [record EXCEPT !["master"] = NoRecord]
    /\ counter' = IF "tokens survive" \in Assume THEN counter ELSE 0
    /\ queue' = <<>>
    /\ reserved' = NotReserved
    /\ seen' = [seen EXCEPT !.epoch = @ + 1]
    /\ UNCHANGED <<wire, asks, mind, server, unconfirmed, healed, resource>>

\* A5: somebody writes to the store who does not play by the rules: here he takes the record away,
\* and sets the counter back.
Intrude ==
    /\ MayBreak("A5")
    /\ breaches' = breaches + 1
    /\ record' = [record EXCEPT !["master"] = NoRecord]
    /\ counter' \in 0..counter
    /\ seen' = [seen EXCEPT !.epoch = @ + 1]
    /\ UNCHANGED <<queue, reserved, wire, asks, mind, server, unconfirmed, healed, resource>>

(***************************************************************************)
(* The fenced resource. A process that was paused between its check and    *)
(* its write, or a write that was long on its way, comes with the token of *)
(* the contender's last term.                                              *)
(***************************************************************************)
IsBefore(m, r) == m.epoch < r.epoch \/ (m.epoch = r.epoch /\ m.token < r.token)
Write(c) ==
    LET m == mind[c] IN
    /\ "write" \in Faults /\ m.token # 0
    /\ m.token >= resource.token \/ "resource without check" \in Bugs
    /\ resource' = [token |-> m.token, epoch |-> m.epoch, of |-> c]
    /\ seen' = [seen EXCEPT !.damaged =
          \/ @
          \/ IsBefore(m, resource)
          \/ m.token = resource.token /\ m.epoch = resource.epoch /\ resource.of # c]
    /\ UNCHANGED <<record, counter, queue, reserved, wire, asks, mind, server, unconfirmed, healed,
                   breaches>>

Next ==
    \/ \E c \in Contender :
          \/ SendAcquire(c) \/ SendGuard(c) \/ SendRelease(c) \/ Stop(c) \/ Abandon(c)
          \/ "late answers" \in Faults /\ \E token \in 1..counter : GiveBackLate(c, token)
          \/ TakeAnswer(c) \/ GiveUp(c) \/ RivalIsGone(c)
          \/ Crash(c) \/ Restart(c) \/ HearOfMaster(c) \/ Write(c)
    \/ \E q \in wire : Stamp(q) \/ CarryOut(q) \/ Lose(q)
    \/ Tick \/ Heal \/ Depose \/ StepClock \/ Forget \/ Intrude

Spec == Init /\ [][Next]_vars

\* Once the faults are over, what can go on happening does happen at last.
FairSpec ==
    /\ Spec
    /\ WF_vars(healed /\ Tick)
    /\ WF_vars(healed /\ \E q \in wire : CarryOut(q))
    /\ \A c \in Contender :
          /\ WF_vars(healed /\ TakeAnswer(c))
          /\ WF_vars(healed /\ GiveUp(c))
          /\ WF_vars(healed /\ SendAcquire(c))
          /\ WF_vars(healed /\ SendGuard(c))
          /\ WF_vars(healed /\ SendRelease(c))

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
\* G1: at any instant at most one contender believes.
OneBeliever == ~Overlap
\* G2: a belief ends before the store can give the mutex to another.
SelfFencing == \A c \in Contender : Believes(c) => OwnerAt(record["master"], 0) = Id[c]
\* What is left of G1 where it does not hold: a belief ends within a lease after the store has given
\* the mutex away.
BeliefEnds == \A c \in Contender : seen.over[c] <= Lease
\* G3: every term has a larger token than all before.
TokensGrow == seen.grew
\* G4: after a write of a term the resource takes none of an earlier term.
FencedResourceSafe == ~seen.damaged
\* G7: after the faults somebody leads. The model cannot go on when its tokens are used up.
LeaderAfterHealing == healed ~> (\E c \in Contender : Believes(c)) \/ counter = Tokens

=============================================================================

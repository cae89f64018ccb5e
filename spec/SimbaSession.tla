---------------------------- MODULE SimbaSession ----------------------------
(***************************************************************************)
(* Mutexes on a store of sessions: ZooKeeper and etcd.                     *)
(*                                                                         *)
(* A client has a session. A contender is a node of that session in the    *)
(* queue of its mutex; the first node owns. The store removes the nodes of *)
(* a session that it has not heard of for SessionTime. So the client must  *)
(* know for how long its session certainly lives: that is its proof. One   *)
(* proof counts for all mutexes of the client.                             *)
(*                                                                         *)
(*   sent                            the store hears of the session        *)
(*    |--------------------------------|                                   *)
(*    |<------ SessionTime - Margin ------>| the proof ends                *)
(*                                     |<------- SessionTime ------>| nodes may go  *)
(*                                                                         *)
(* How a proof comes about is the client's work (docs/internals/           *)
(* zookeeper.md and etcd.md) and is not told here: an answered request of  *)
(* a session proves that the store has heard of it since the sending. Ids  *)
(* do not occur: contenders with equal ids exclude each other (A4), and    *)
(* there is no clock that could be stepped (A2).                           *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Client, Mutex,
    SessionTime, Margin,
    Sessions,   \* bound: sessions of a client
    Tokens,     \* bound: nodes
    Old,        \* bound: given-up requests on the wire for a client and a mutex
    Breaches, Assume, Faults, Bugs  \* as in Simba.tla; here also "A7": what is answered was heard

VARIABLES
    lives,      \* lives[c][n]: how long the store still keeps session n of client c
    opened,     \* opened[c]: the number of its last session
    nodes,      \* all nodes, in the order of their creation
    counter,    \* the last token
    session,    \* session[c]: the session that c uses; 0: none
    proof,      \* proof[c]: how long c knows it to live
    owns,       \* owns[c][m]: the token of its term; 0: none
    leaves,     \* leaves[c][m]: the token of a node that it takes away; 0: none
    asks, wire, healed, breaches, \* as in Simba.tla
    seen

vars == <<lives, opened, nodes, counter, session, proof, owns, leaves, asks, wire, healed,
          breaches, seen>>

Drift == IF "A1" \in Assume THEN Margin ELSE 2 * Margin
Max(a, b) == IF a > b THEN a ELSE b

NoProof == [left |-> 0, lag |-> 0]
NoAsk == [op |-> "none", age |-> 0, lag |-> 0, answer |-> "none", token |-> 0]
Nothing == [m \in Mutex |-> 0]
Symmetry == Permutations(Client) \union Permutations(Mutex)

Init ==
    /\ lives = [c \in Client |-> [n \in 1..Sessions |-> 0]]
    /\ opened = [c \in Client |-> 0]
    /\ nodes = <<>>
    /\ counter = 0
    /\ session = [c \in Client |-> 0]
    /\ proof = [c \in Client |-> NoProof]
    /\ owns = [c \in Client |-> Nothing]
    /\ leaves = [c \in Client |-> Nothing]
    /\ asks = [c \in Client |-> [m \in Mutex |-> NoAsk]]
    /\ wire = {}
    /\ healed = FALSE
    /\ breaches = 0
    /\ seen = [largest |-> Nothing, grew |-> TRUE]

Believes(c, m) == owns[c][m] # 0 /\ proof[c].left > 0

(***************************************************************************)
(* A client sends. Requests of one session stay in their order: one that   *)
(* was given up is not carried out after a newer one.                      *)
(***************************************************************************)
\* With a session that lives until `lives` says so.
Open(c) ==
    /\ session[c] = 0 /\ opened[c] < Sessions
    /\ opened' = [opened EXCEPT ![c] = @ + 1]
    /\ session' = [session EXCEPT ![c] = opened[c] + 1]
    /\ lives' = [lives EXCEPT ![c][opened[c] + 1] = SessionTime]
    /\ UNCHANGED <<nodes, counter, proof, owns, leaves, asks, wire, healed, breaches, seen>>

Send(c, m, op, token) ==
    /\ session[c] # 0 /\ asks[c][m] = NoAsk
    /\ Cardinality({q \in wire : q.from = c /\ q.mutex = m}) <= Old
    /\ wire' = wire \union {[op |-> op, from |-> c, mutex |-> m, session |-> session[c],
                             token |-> token, live |-> TRUE]}
    /\ asks' = [asks EXCEPT ![c][m] = [NoAsk EXCEPT !.op = op]]
    /\ UNCHANGED <<lives, opened, nodes, counter, session, proof, owns, leaves, healed, breaches,
                   seen>>

InQueue(m) == SelectSeq(nodes, LAMBDA n : n.mutex = m)
IsFirst(c, m) ==
    /\ InQueue(m) # <<>>
    /\ Head(InQueue(m)).of = c /\ Head(InQueue(m)).session = session[c]
HasNode(c, m) ==
    \E i \in 1..Len(nodes) :
        nodes[i].of = c /\ nodes[i].mutex = m /\ nodes[i].session = session[c]

\* After the faults only what has a reason: a watch tells when its node has come first.
SendAcquire(c, m) ==
    /\ ~Believes(c, m) /\ leaves[c][m] = 0
    /\ healed => ~HasNode(c, m) \/ IsFirst(c, m)
    /\ Send(c, m, "ACQUIRE", 0)

IsTimeToGuard(c, m) == Believes(c, m) /\ proof[c].left <= 1
SendGuard(c, m) == IsTimeToGuard(c, m) /\ Send(c, m, "GUARD", owns[c][m])

SendRelease(c, m) ==
    /\ ~Believes(c, m) /\ leaves[c][m] # 0
    /\ Send(c, m, "RELEASE", leaves[c][m])

Stop(c, m) ==
    /\ "stop" \in Faults /\ ~healed /\ Believes(c, m)
    /\ owns' = [owns EXCEPT ![c][m] = 0]
    /\ leaves' = [leaves EXCEPT ![c][m] = owns[c][m]]
    /\ UNCHANGED <<lives, opened, nodes, counter, session, proof, asks, wire, healed, breaches,
                   seen>>

(***************************************************************************)
(* The store carries a request out.                                        *)
(***************************************************************************)
NodeOf(q) ==
    {i \in 1..Len(nodes) :
        nodes[i].of = q.from /\ nodes[i].session = q.session /\ nodes[i].mutex = q.mutex}
Remove(list, token) == SelectSeq(list, LAMBDA n : n.token # token)
First(list, m) == SelectSeq(list, LAMBDA n : n.mutex = m)[1]
AnswerTo(q, list) ==
    IF /\ SelectSeq(list, LAMBDA n : n.mutex = q.mutex) # <<>>
       /\ First(list, q.mutex).of = q.from /\ First(list, q.mutex).session = q.session
    THEN [kind |-> "mine", token |-> First(list, q.mutex).token]
    ELSE [kind |-> "other", token |-> 0]

\* Who was told that it owns and asks again gets a new node, at the end of the queue.
Acquire(q) ==
    LET mine == NodeOf(q)
        kept == \E i \in mine : ~nodes[i].told \/ "a new term on the old node" \in Bugs
        others == SelectSeq(nodes, LAMBDA n :
                      ~(n.of = q.from /\ n.session = q.session /\ n.mutex = q.mutex))
    IN
    IF kept THEN UNCHANGED <<nodes, counter>>
    ELSE /\ counter < Tokens
         /\ counter' = counter + 1
         /\ nodes' = Append(others, [of |-> q.from, session |-> q.session, mutex |-> q.mutex,
                                     token |-> counter + 1, told |-> FALSE])

Release(q) ==
    /\ nodes' = Remove(nodes, q.token)
    /\ UNCHANGED counter

Answered(q, kind, token) ==
    asks' = IF q.live
            THEN [asks EXCEPT ![q.from][q.mutex].answer = kind, ![q.from][q.mutex].token = token]
            ELSE asks

CarryOut(q) ==
    /\ q \in wire
    /\ IF lives[q.from][q.session] = 0
       THEN /\ Answered(q, "expelled", 0)
            /\ wire' = wire \ {q}
            /\ UNCHANGED <<lives, nodes, counter>>
       ELSE /\ \/ lives' = [lives EXCEPT ![q.from][q.session] = SessionTime]
               \/ "A7" \notin Assume /\ UNCHANGED lives
            /\ CASE q.op = "ACQUIRE" -> Acquire(q)
                 [] q.op = "GUARD" -> UNCHANGED <<nodes, counter>>
                 [] q.op = "RELEASE" -> Release(q)
            /\ Answered(q, AnswerTo(q, nodes').kind, AnswerTo(q, nodes').token)
            /\ wire' = {o \in wire : o # q /\ (q.live =>
                            ~(o.from = q.from /\ o.mutex = q.mutex))}
    /\ UNCHANGED <<opened, session, proof, owns, leaves, healed, breaches, seen>>

\* The store removes the nodes of a session that is over, now or later.
Sweep(c, n) ==
    /\ lives[c][n] = 0
    /\ \E i \in 1..Len(nodes) : nodes[i].of = c /\ nodes[i].session = n
    /\ nodes' = SelectSeq(nodes, LAMBDA o : ~(o.of = c /\ o.session = n))
    /\ UNCHANGED <<lives, opened, counter, session, proof, owns, leaves, asks, wire, healed,
                   breaches, seen>>

(***************************************************************************)
(* A client takes an answer in, or gives up waiting.                       *)
(***************************************************************************)
Forgotten(c, ms) == {IF q.from = c /\ q.mutex \in ms THEN [q EXCEPT !.live = FALSE] ELSE q : q \in wire}

\* The session is over: so are all terms that rest on it, and all that is under way.
LoseSession(c) ==
    /\ session' = [session EXCEPT ![c] = 0]
    /\ asks' = [asks EXCEPT ![c] = [m \in Mutex |-> NoAsk]]
    /\ wire' = Forgotten(c, Mutex)
    /\ leaves' = [leaves EXCEPT ![c] = Nothing]
    /\ IF "terms outlive their session" \in Bugs THEN UNCHANGED <<proof, owns>>
       ELSE /\ proof' = [proof EXCEPT ![c] = NoProof]
            /\ owns' = [owns EXCEPT ![c] = Nothing]

\* The proof that an answer gives counts from the sending.
Proved(c, m) ==
    LET age == IF "proof from the answer" \in Bugs THEN 0 ELSE asks[c][m].age
        left == SessionTime - Margin - age
    IN IF left > proof[c].left THEN [left |-> left, lag |-> asks[c][m].lag] ELSE proof[c]

\* Its node becomes one whose contender was told.
Told(token) == [i \in 1..Len(nodes) |->
    IF nodes[i].token = token THEN [nodes[i] EXCEPT !.told = TRUE] ELSE nodes[i]]

Begin(c, m, token) ==
    IF proof'[c].left > 0
    THEN /\ owns' = [owns EXCEPT ![c][m] = token]
         /\ nodes' = Told(token)
         /\ seen' = [seen EXCEPT !.grew = @ /\ token > seen.largest[m],
                                 !.largest[m] = Max(@, token)]
         /\ UNCHANGED leaves
    ELSE /\ leaves' = [leaves EXCEPT ![c][m] = token]
         /\ UNCHANGED <<owns, nodes, seen>>

AfterAnswer(c, m, ask) ==
    LET mine == ask.answer = "mine" IN
    CASE ask.op = "ACQUIRE" /\ mine -> Begin(c, m, ask.token)
      [] ask.op = "GUARD" /\ ~(mine /\ ask.token = owns[c][m]) ->
            owns' = [owns EXCEPT ![c][m] = 0] /\ UNCHANGED <<nodes, leaves, seen>>
      [] ask.op = "RELEASE" ->
            leaves' = [leaves EXCEPT ![c][m] = 0] /\ UNCHANGED <<owns, nodes, seen>>
      [] OTHER -> UNCHANGED <<owns, nodes, leaves, seen>>

TakeAnswer(c, m) ==
    LET ask == asks[c][m] IN
    /\ ask.answer # "none"
    /\ IF ask.answer = "expelled" THEN LoseSession(c) /\ UNCHANGED <<nodes, seen>>
       ELSE /\ proof' = [proof EXCEPT ![c] = Proved(c, m)]
            /\ AfterAnswer(c, m, ask)
            /\ asks' = [asks EXCEPT ![c][m] = NoAsk]
            /\ wire' = Forgotten(c, {m})
            /\ UNCHANGED session
    /\ UNCHANGED <<lives, opened, counter, healed, breaches>>

GiveUp(c, m) ==
    /\ "lost" \in Faults /\ asks[c][m] # NoAsk
    /\ healed => asks[c][m].answer = "none"
                 /\ ~\E q \in wire : q.from = c /\ q.mutex = m /\ q.live
    /\ asks' = [asks EXCEPT ![c][m] = NoAsk]
    /\ wire' = Forgotten(c, {m})
    /\ UNCHANGED <<lives, opened, nodes, counter, session, proof, owns, leaves, healed, breaches,
                   seen>>

(***************************************************************************)
(* Time, and faults.                                                       *)
(***************************************************************************)
IsCalm ==
    /\ wire = {}
    /\ \A i \in 1..Len(nodes) : lives[nodes[i].of][nodes[i].session] > 0
    /\ \A c \in Client :
          /\ session[c] = 0 => opened[c] = Sessions
          /\ \A m \in Mutex :
                /\ asks[c][m] = NoAsk
                /\ leaves[c][m] = 0
                /\ ~IsTimeToGuard(c, m)
                /\ session[c] = 0 \/ Believes(c, m) \/ (HasNode(c, m) /\ ~IsFirst(c, m))

IsTimed(ask) ==
    ask.op # "none" /\ ask.answer # "expelled" /\ ask.age < SessionTime - Margin
AskLater(ask, d, own) ==
    IF ~IsTimed(ask) THEN ask
    ELSE IF ask.age + own >= SessionTime - Margin
    THEN [ask EXCEPT !.age = SessionTime - Margin, !.lag = 0]
    ELSE [ask EXCEPT !.age = @ + own, !.lag = @ + d - own]

Elapse(d, own) ==
    /\ healed => IsCalm
    /\ lives' = [c \in Client |-> [n \in 1..Sessions |-> Max(lives[c][n] - d, 0)]]
    /\ proof' = [c \in Client |->
          IF proof[c].left > own[c]
          THEN [left |-> proof[c].left - own[c], lag |-> proof[c].lag + d - own[c]] ELSE NoProof]
    /\ owns' = [c \in Client |-> IF proof[c].left > own[c] THEN owns[c] ELSE Nothing]
    /\ asks' = [c \in Client |-> [m \in Mutex |-> AskLater(asks[c][m], d, own[c])]]
    /\ \A c \in Client : proof'[c].lag <= Drift /\ \A m \in Mutex : asks'[c][m].lag <= Drift
    /\ UNCHANGED <<opened, nodes, counter, session, leaves, wire, healed, breaches, seen>>

Tick ==
    \E slow \in SUBSET {c \in Client : proof[c].left > 0 \/ \E m \in Mutex : IsTimed(asks[c][m])} :
        /\ healed => slow = {}
        /\ Elapse(1, [c \in Client |-> IF c \in slow THEN 0 ELSE 1])

Lose(q) ==
    /\ q \in wire /\ "lost" \in Faults
    /\ IF healed THEN ~q.live
       ELSE Cardinality({o \in wire : o.from = q.from /\ o.mutex = q.mutex}) > Old
    /\ wire' = wire \ {q}
    /\ UNCHANGED <<lives, opened, nodes, counter, session, proof, owns, leaves, asks, healed,
                   breaches, seen>>

\* A new process begins with a new session.
Crash(c) ==
    /\ "crash" \in Faults /\ ~healed /\ session[c] # 0
    /\ session' = [session EXCEPT ![c] = 0]
    /\ asks' = [asks EXCEPT ![c] = [m \in Mutex |-> NoAsk]]
    /\ wire' = Forgotten(c, Mutex)
    /\ leaves' = [leaves EXCEPT ![c] = Nothing]
    /\ proof' = [proof EXCEPT ![c] = NoProof]
    /\ owns' = [owns EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<lives, opened, nodes, counter, healed, breaches, seen>>

Heal ==
    /\ "heal" \in Faults /\ ~healed
    /\ healed' = TRUE
    /\ UNCHANGED <<lives, opened, nodes, counter, session, proof, owns, leaves, asks, wire,
                   breaches, seen>>

MayBreak(assumption) == assumption \notin Assume /\ breaches < Breaches

\* A3: the store forgets nodes and sessions, and counts from the beginning again.
Forget ==
    /\ MayBreak("A3")
    /\ breaches' = breaches + 1
    /\ nodes' = <<>>
    /\ counter' = 0
    /\ lives' = [c \in Client |-> [n \in 1..Sessions |-> 0]]
    /\ UNCHANGED <<opened, session, proof, owns, leaves, asks, wire, healed, seen>>

\* A5: somebody deletes the first node.
Intrude ==
    /\ MayBreak("A5") /\ nodes # <<>>
    /\ breaches' = breaches + 1
    /\ nodes' = Tail(nodes)
    /\ UNCHANGED <<lives, opened, counter, session, proof, owns, leaves, asks, wire, healed, seen>>

Next ==
    \/ \E c \in Client :
          \/ Open(c) \/ Crash(c)
          \/ \E n \in 1..Sessions : Sweep(c, n)
          \/ \E m \in Mutex :
                \/ SendAcquire(c, m) \/ SendGuard(c, m) \/ SendRelease(c, m) \/ Stop(c, m)
                \/ TakeAnswer(c, m) \/ GiveUp(c, m)
    \/ \E q \in wire : CarryOut(q) \/ Lose(q)
    \/ Tick \/ Heal \/ Forget \/ Intrude

Spec == Init /\ [][Next]_vars

FairSpec ==
    /\ Spec
    /\ WF_vars(healed /\ Tick)
    /\ WF_vars(healed /\ \E q \in wire : CarryOut(q))
    /\ \A c \in Client :
          /\ WF_vars(healed /\ Open(c))
          /\ WF_vars(healed /\ \E n \in 1..Sessions : Sweep(c, n))
          /\ \A m \in Mutex :
                /\ WF_vars(healed /\ TakeAnswer(c, m))
                /\ WF_vars(healed /\ GiveUp(c, m))
                /\ WF_vars(healed /\ SendAcquire(c, m))
                /\ WF_vars(healed /\ SendGuard(c, m))
                /\ WF_vars(healed /\ SendRelease(c, m))

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
OneBeliever ==
    \A m \in Mutex, a, b \in Client : Believes(a, m) /\ Believes(b, m) => a = b
TokensGrow == seen.grew
\* The model cannot go on when its tokens or its sessions are used up.
IsUsedUp == counter = Tokens \/ \A c \in Client : session[c] = 0 /\ opened[c] = Sessions
LeaderAfterHealing == healed ~> IsUsedUp \/ \A m \in Mutex : \E c \in Client : Believes(c, m)

=============================================================================

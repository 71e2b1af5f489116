/* A limit of runs: at most N jobs of a stage run at once, and no place is lost.

Two claims at once, statement by statement: each sees what was committed before it began, and locks rows. Nothing gives
a place (a row of giftcard_slots) back: it is free once its job does not run under its lease any more. */

#define N         2
#define JOBS      3
#define FREEZES   1  /* runs whose lease ends */
#define PUT_BACKS 1  /* snoozed, retried or released: of one job, as all are alike */

mtype = { queued, running, completed, cancelled };          /* status */

/* What is committed: giftcard_jobs and giftcard_slots (lease 0: never taken), and who locks a row. */
mtype status[JOBS];
byte lease[JOBS];
bool expired[JOBS];
byte slot_job[N], slot_lease[N];
byte slot_locked[N], job_locked[JOBS];

/* Only for the proof. */
byte leases, freezes, put_backs, by_hand;
bool taken_over[JOBS];

#ifdef SLOT_LEAKED
#define TAKEN(s) (slot_lease[s] != 0)
#else
#define OF(s)    slot_job[s]
#define TAKEN(s) (slot_lease[s] != 0 && status[OF(s)] == running && lease[OF(s)] == slot_lease[s] && !expired[OF(s)])
#endif
#define RUNS(j)   (status[j] == running && !expired[j] && !taken_over[j] -> 1 : 0)
#define QUEUED(j) (status[j] == queued && job_locked[j] == 0)

/* The first statement: its snapshot, in which these places are free. */
inline look() {
    atomic {
        (QUEUED(0) || QUEUED(1) || QUEUED(2)) && (!TAKEN(0) || !TAKEN(1)) ->
        seen[0] = !TAKEN(0); seen[1] = !TAKEN(1);
        printf("claim %d looks: free are %d %d\n", _pid, seen[0], seen[1])
    }
}

/* The same statement, later: it locks one of them, and passes over what another claim has locked. */
inline lock_slot() {
    atomic {
        if
#ifdef SLOT_NOT_LOCKED
        :: seen[0] -> s = 0
        :: seen[1] && !seen[0] -> s = 1
#else
        :: seen[0] && slot_locked[0] == 0 -> s = 0; slot_locked[0] = _pid + 1
        :: seen[1] && slot_locked[1] == 0 && !(seen[0] && slot_locked[0] == 0) -> s = 1; slot_locked[1] = _pid + 1
#endif
        :: else -> s = N; printf("claim %d finds no free place\n", _pid)
        fi
    }
}

/* The second statement sees what was committed until the lock was taken. */
inline look_again() {
    atomic {
        if
#ifndef SLOT_READ_ONCE
        :: s < N && TAKEN(s) -> slot_locked[s] = 0; s = N; printf("claim %d finds its place taken\n", _pid)
#endif
        :: else
        fi
    }
}

inline pick_job() {
    atomic {
        if
        :: s < N && QUEUED(0) -> j = 0
        :: s < N && QUEUED(1) -> j = 1
        :: s < N && QUEUED(2) -> j = 2
        :: else -> j = JOBS
        fi;
        if
        :: j < JOBS -> job_locked[j] = _pid + 1
        :: else
        fi
    }
}

inline commit_claim() {
    atomic {
        if
        :: j < JOBS ->
            leases++; status[j] = running; lease[j] = leases; expired[j] = false; taken_over[j] = false;
            slot_job[s] = j; slot_lease[s] = leases; job_locked[j] = 0;
            printf("claim %d starts job %d in place %d: lease %d\n", _pid, j, s + 1, leases);
            assert(RUNS(0) + RUNS(1) + RUNS(2) <= N)        /* the limit */
        :: else
        fi;
        if
        :: s < N && slot_locked[s] == _pid + 1 -> slot_locked[s] = 0
        :: else
        fi;
        s = 0; j = 0; seen[0] = false; seen[1] = false
    }
}

active [2] proctype claims() {
    bool seen[N];
    byte s, j;
end:
    do
    :: look();
progress:                                                   /* a claim that finds nothing is made again */
       lock_slot();
       look_again();
       pick_job();
       commit_claim()
    od
}

/* A run ends, however: nothing here touches its place. */
inline settle(n) {
    atomic {
        status[n] == running ->
        if
        :: !taken_over[n] -> status[n] = completed
        :: taken_over[n] -> status[n] = queued
        :: n == 2 && put_backs < PUT_BACKS -> put_backs++; status[n] = queued
        fi;
#ifdef SLOT_LEAKED
        if
        :: slot_lease[0] == lease[n] -> slot_lease[0] = 0
        :: slot_lease[1] == lease[n] -> slot_lease[1] = 0
        :: else
        fi;
#endif
        lease[n] = 0; expired[n] = false; taken_over[n] = false;
        printf("job %d is settled: %e\n", n, status[n])
    }
}

inline cancel_by_hand(n) {
    atomic {
        status[n] == running && by_hand == 0 -> by_hand++; status[n] = cancelled;
        printf("an operator updates job %d to cancelled\n", n)
    }
}

inline expire(n) {
    atomic {
        status[n] == running && !expired[n] && freezes < FREEZES && !taken_over[n] -> freezes++; expired[n] = true;
        printf("lease %d of job %d ends\n", lease[n], n)
    }
}

inline take_over(n) {
    atomic {
        status[n] == running && expired[n] ->
        leases++; lease[n] = leases; expired[n] = false; taken_over[n] = true;
        printf("job %d is taken over: lease %d\n", n, leases)
    }
}

active proctype others() {
end:
    do
    :: settle(0)
    :: settle(1)
    :: settle(2)
    :: cancel_by_hand(0)
    :: expire(1)
    :: take_over(1)
    od
}

init {
    atomic { status[0] = queued; status[1] = queued; status[2] = queued }
}

#define ENDED(j) (status[j] == completed || status[j] == cancelled)

/* No place is lost: all jobs end. */
active proctype end_of_time() {
    timeout -> assert(ENDED(0) && ENDED(1) && ENDED(2))
}

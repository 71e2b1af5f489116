/* A concurrency key: of the jobs that share it, one runs at a time.

Two claims at once, statement by statement: each has locked its job, tries the key's advisory lock, and then looks, in
another statement, whether a job of the key runs. What a claim has marked is seen, and its lock free, once it commits. */

#define JOBS      2
#define FREEZES   1  /* runs whose lease ends */
#define PUT_BACKS 1  /* snoozed, retried or released */

mtype = { queued, running, completed };                     /* status */

mtype status[JOBS];
bool expired[JOBS], taken_over[JOBS];
byte job_locked[JOBS], key_locked;
byte freezes, put_backs;

/* Under a lease; and those of them that have a handler: a run that was taken over has none. */
#define RUNS(j)    (status[j] == running && !expired[j] -> 1 : 0)
#define HANDLED(j) (status[j] == running && !expired[j] && !taken_over[j] -> 1 : 0)
#define QUEUED(j)  (status[j] == queued && job_locked[j] == 0)

inline pick_job() {
    atomic {
        (QUEUED(0) || QUEUED(1)) && RUNS(0) + RUNS(1) == 0 ->
        if
        :: QUEUED(0) -> j = 0
        :: QUEUED(1) -> j = 1
        fi;
        job_locked[j] = _pid + 1; printf("claim %d picks job %d\n", _pid, j)
    }
}

inline try_lock() {
    atomic {
        if
#ifdef KEY_NOT_LOCKED
        :: true
#else
        :: key_locked == 0 -> key_locked = _pid + 1
        :: else -> has_lock = false; printf("claim %d does not get the key's lock\n", _pid)
#endif
        fi
    }
}

inline look() {
    atomic {
        is_free = (RUNS(0) + RUNS(1) == 0);
        printf("claim %d looks: the key's running jobs are %d\n", _pid, RUNS(0) + RUNS(1))
    }
}

inline commit_claim() {
    atomic {
        if
        :: has_lock && is_free ->
            status[j] = running; expired[j] = false; taken_over[j] = false;
            printf("claim %d starts job %d\n", _pid, j);
            assert(HANDLED(0) + HANDLED(1) <= 1)                  /* one at a time */
        :: else
        fi;
        job_locked[j] = 0; key_locked = (key_locked == _pid + 1 -> 0 : key_locked);
        has_lock = true; is_free = false; j = 0
    }
}

active [2] proctype claims() {
    bool has_lock = true, is_free;
    bit j;
end:
    do
    :: pick_job();
progress:                                                   /* a claim that finds nothing is made again */
#ifdef LOOKS_BEFORE_LOCK
       look();
       try_lock();
#else
       try_lock();
       look();
#endif
       commit_claim()
    od
}

inline settle(n) {
    atomic {
        status[n] == running ->
        if
        :: !taken_over[n] -> status[n] = completed
        :: taken_over[n] || put_backs < PUT_BACKS ->
            put_backs = put_backs + (taken_over[n] -> 0 : 1); status[n] = queued
        fi;
        expired[n] = false; taken_over[n] = false; printf("job %d is settled: %e\n", n, status[n])
    }
}

inline expire(n) {
    atomic {
        status[n] == running && !expired[n] && !taken_over[n] && freezes < FREEZES -> freezes++; expired[n] = true;
        printf("the lease of job %d ends\n", n)
    }
}

inline take_over(n) {
    atomic {
        status[n] == running && expired[n] -> expired[n] = false; taken_over[n] = true;
        printf("job %d is taken over\n", n)
    }
}

active proctype others() {
end:
    do
    :: settle(0)
    :: settle(1)
    :: expire(0)
    :: expire(1)
    :: take_over(0)
    :: take_over(1)
    od
}

init {
    atomic { status[0] = queued; status[1] = queued }
}

active proctype end_of_time() {
    timeout -> assert(status[0] == completed && status[1] == completed)
}

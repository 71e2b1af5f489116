/* The lease of a job: claim, run, settle within the fence, take-over, dead letter, revival, cancel.

One job and two functions that run ticks. At any moment a function may be killed, frozen past its lease, or lose the
answer of a call and repeat it; an operator may cancel the job, or UPDATE it out of `running`. Each inline is one SQL
call, which is one transaction on a locked row: atomic. */

#define ATTEMPTS 2  /* max_attempts */
#define REVIVALS 1  /* the cap of revivals */
#define DEATHS   1  /* functions that are killed */
#define FREEZES  1  /* leases that end while their function lives */
#define RETURNS  1  /* runs that are put back without an attempt: snoozed, released */
#define RUNS     (ATTEMPTS * (REVIVALS + 1) + RETURNS + 1)  /* and the run that the operator takes away */
#define LEASES   (RUNS + DEATHS + FREEZES)

mtype = { queued, running, completed, error, cancelled };          /* status */
mtype = { complete, retry, fail, put_back };                       /* outcome */
mtype = { settled_before, lease_lost };                            /* what else a settle answers */

/* The row of giftcard_jobs. */
mtype status = queued;
byte attempts, run_no, lease, revivals;
bool expired, revives, cancel_requested;
/* giftcard_job_history: lines of a run, and settles under a lease. */
byte lines[RUNS + 1], settles[LEASES + 1];
byte next_jobs;

/* What only the proof knows: who holds the lease, how many there were, what was used up. */
byte holder, leases, counted, by_hand, deaths, freezes, returns;
bool orphaned;
byte round;  /* runs since it was enqueued or revived, but those that were put back */

#define ENDED (status == completed || status == cancelled || (status == error && !revives))

/* Every run is counted once, unless it still runs or an operator took it away. */
inline check() {
    assert(run_no == counted + by_hand + (status == running -> 1 : 0));
    assert(round <= ATTEMPTS + by_hand);     /* a job that is queued by hand runs once more */
    assert(revivals <= REVIVALS && next_jobs <= 1)
}

inline claim() {
    atomic {
        status == queued ->
        assert(run_no < RUNS && leases < LEASES);
        leases++; key = leases; run_no++; round++; status = running; lease = key;
#ifndef ATTEMPT_NOT_COUNTED
        attempts++;
#endif
        expired = false; cancel_requested = false; orphaned = false; holder = _pid + 1;
        interrupted = false; my_run = run_no; my_attempts = attempts; my_revivals = revivals;
        printf("function %d claims run %d: lease %d\n", _pid, run_no, key); check()
    }
}

inline take_over() {
    atomic {
        status == running && expired ->
        assert(leases < LEASES);
        leases++; key = leases; expired = false; orphaned = false; holder = _pid + 1;
#ifdef TAKE_OVER_KEEPS_LEASE
        key = lease;
#else
        lease = key;
#endif
        interrupted = true; my_run = run_no; my_attempts = attempts; my_revivals = revivals;
        printf("function %d takes run %d over: lease %d\n", _pid, run_no, key); check()
    }
}

/* The answer of the claim was lost: the same key finds what runs under it, and claims nothing else. */
inline repeat_claim() {
    atomic {
        found = (status == running && lease == key);
#ifdef CLAIM_KEY_FORGOTTEN
        found = false;
#endif
        printf("function %d repeats its claim: %d runs under lease %d\n", _pid, found, key);
        assert(found == (status == running && lease == key))
    }
}

/* The handler, and the failure policy: it decides with what the claim returned. */
inline run_handler() {
    atomic {
        if
        :: outcome = fail
        :: !interrupted -> outcome = complete
        :: !interrupted && returns < RETURNS -> returns++; outcome = put_back
        fi;
        if
        :: outcome == fail && my_attempts < ATTEMPTS -> outcome = retry
        :: else
        fi;
        my_revive = (outcome == fail && my_revivals < REVIVALS);
#ifdef REVIVAL_WITHOUT_CAP
        my_revive = (outcome == fail);
#endif
        my_attempts = 0; my_revivals = 0; interrupted = false
    }
}

#ifdef FENCE_REMOVED
#define FENCE true
#else
#ifdef STATUS_NOT_IN_FENCE
#define FENCE (lease == key)
#else
#ifdef LEASE_NOT_IN_FENCE
#define FENCE (status == running)
#else
#define FENCE (status == running && lease == key)
#endif
#endif
#endif

inline settle() {
    atomic {
        settled = false;
        if
        :: FENCE ->
            printf("function %d settles run %d under lease %d: %e\n", _pid, my_run, key, outcome);
            assert(holder == _pid + 1);          /* nobody but the one that holds the job */
            lines[my_run]++; settles[key]++; counted++;
            assert(lines[my_run] == 1 && settles[key] == 1);
            settled = true; lease = 0; expired = false; holder = 0; revives = false;
            if
            :: outcome == complete -> status = completed; next_jobs++
            :: outcome != complete && cancel_requested -> status = cancelled
            :: outcome == retry && !cancel_requested -> status = queued
            :: outcome == put_back && !cancel_requested ->
                status = queued; round--; attempts = attempts - (attempts > 0 -> 1 : 0)
            :: outcome == fail && !cancel_requested -> status = error; revives = my_revive
            fi;
            check()
        :: else ->
            settled = (settles[key] > 0);    /* known by the lease in the history */
            printf("function %d settles run %d under lease %d: %e\n", _pid, my_run, key,
                   (settled -> settled_before : lease_lost))
        fi
    }
}

/* The answer of the settle was lost: what was settled is answered as settled again. */
inline repeat_settle() {
    atomic {
        was_settled = settled; settle();
#ifdef HISTORY_WITHOUT_LEASE
        settled = false;
#endif
        assert(settled == was_settled)
    }
}

inline revive() {
    atomic {
        status == error && revives ->
        status = queued; attempts = 0; round = 0; revivals++; revives = false;
        printf("function %d revives the dead letter\n", _pid); check()
    }
}

inline cancel() {
    atomic {
        if
        :: status == queued || status == error -> status = cancelled; revives = false
        :: status == running -> cancel_requested = true
        :: else
        fi;
        printf("the operator cancels\n"); check()
    }
}

/* UPDATE giftcard_jobs SET status = 'queued' WHERE status = 'running': what it leaves in lease_id has no effect. */
inline update_by_hand() {
    atomic {
        status == running ->
        status = queued; holder = 0; orphaned = false; by_hand++;
        printf("the operator updates the running job to queued\n"); check()
    }
}

inline expire() {
    atomic {
        status == running && !expired && (orphaned || freezes < FREEZES) ->
        if
        :: orphaned
        :: else -> freezes++
        fi;
        expired = true; printf("lease %d ends\n", lease)
    }
}

inline die() {
    atomic {
        deaths < DEATHS -> deaths++;
        if
        :: status == running && holder == _pid + 1 -> orphaned = true
        :: else
        fi;
        printf("function %d is killed\n", _pid)
    }
}

active [2] proctype function() {
    byte key, my_run, my_attempts, my_revivals;
    bool interrupted, found, settled, was_settled, my_revive;
    mtype outcome;
end:
    do
    :: revive()
    :: if
       :: claim()
#ifndef NO_TAKE_OVER
       :: take_over()
#endif
       fi;
       found = true;
       if
       :: skip
       :: repeat_claim()
       fi;
       if
       :: !found
       :: die()
       :: found ->
           run_handler();
           if
           :: die()
           :: settle();
              if
              :: skip
              :: repeat_settle()
              fi
           fi
       fi;
       atomic {
           key = 0; my_run = 0; my_attempts = 0; my_revivals = 0; outcome = 0;
           interrupted = false; found = false; settled = false; was_settled = false; my_revive = false
       }
    od
}

active proctype time() {
end:
    do
    :: expire()
    od
}

active proctype operator() {
end:
    if
    :: cancel()
    :: update_by_hand()
    fi
}

/* No job is lost: whatever dies or freezes, once nothing can happen any more it has ended. */
active proctype end_of_time() {
    timeout -> assert(ENDED)
}

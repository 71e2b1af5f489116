/* A circuit with its probe: failures in a row open it, after the cooldown one probe decides.

Two jobs of one circuit and two functions; the vendor fails for a while, and works then. A run may be snoozed, killed or
frozen past its lease. A claim and a settle lock the circuit's row: each inline is one transaction. */

#define THRESHOLD 3
#define FAILURES  4  /* of the vendor */
#define DEATHS    1
#define FREEZES   1
#define SNOOZES   1
#define JOBS      2

mtype = { queued, running, completed };                     /* status of a job */
mtype = { closed, open, half_open };                        /* state of the circuit */
mtype = { complete, fail, snooze, interrupted };            /* outcome: the last two count nothing */

/* Rows of giftcard_jobs: leases count up; changes: the circuit's changes before the claim (locked_at). */
mtype status[JOBS];
byte lease[JOBS], claimed_at[JOBS];
bool expired[JOBS];

/* The row of giftcard_circuits; changed_at counts its changes. */
mtype state = closed;
byte failures, changed_at, probe_lease;
bool has_probe, cooled;
bit probe_job;

/* Only for the proof. */
byte leases, failed, deaths, freezes, snoozes, in_a_row;
bool probing[JOBS], orphaned[JOBS];

#ifdef PROBE_NOT_FREED
#define PROBE_RUNS has_probe
#else
#ifdef PROBE_LEASE_REMOVED
#define PROBE_RUNS false
#else
#define PROBE_RUNS (has_probe && status[probe_job] == running && lease[probe_job] == probe_lease)
#endif
#endif

#define IS_PROBE (has_probe && probe_job == j && probe_lease == key)

inline change_circuit(to) {
    state = to; failures = 0; changed_at++; has_probe = false; probe_job = 0; probe_lease = 0; in_a_row = 0;
    printf("the circuit is %e\n", to)
}

inline mark() {
    leases++; key = leases; lease[j] = key; status[j] = running; expired[j] = false; orphaned[j] = false
}

/* Closed: every due job starts. */
inline claim() {
    atomic {
        (state == closed && (status[0] == queued || status[1] == queued)) ->
        if
        :: status[0] == queued -> j = 0
        :: status[1] == queued -> j = 1
        fi;
        mark(); claimed_at[j] = changed_at;
        printf("function %d claims job %d: lease %d\n", _pid, j, key)
    }
}

/* Open past its cooldown, or half-open: one job starts, if no probe runs. */
inline pick_probe() {
    atomic {
        (state != closed && cooled && !PROBE_RUNS && (status[0] == queued || status[1] == queued)) ->
        if
        :: status[0] == queued -> j = 0
        :: status[1] == queued -> j = 1
        fi;
        if
        :: state == open -> change_circuit(half_open)
        :: else
        fi;
        mark(); claimed_at[j] = changed_at;
        has_probe = true; probe_job = j; probe_lease = key; probing[j] = true;
        printf("function %d claims job %d as the probe: lease %d\n", _pid, j, key);
        assert(probing[0] + probing[1] <= 1)              /* one probe at a time */
    }
}

inline take_over() {
    atomic {
        ((status[0] == running && expired[0]) || (status[1] == running && expired[1])) ->
        if
        :: status[0] == running && expired[0] -> j = 0
        :: status[1] == running && expired[1] -> j = 1
        fi;
        mark(); probing[j] = false; outcome = interrupted;
        printf("function %d takes job %d over: lease %d\n", _pid, j, key)
    }
}

inline run_handler() {
    atomic {
        if
        :: outcome == interrupted
        :: outcome != interrupted -> outcome = complete
        :: outcome != interrupted && failed < FAILURES -> failed++; outcome = fail
        :: outcome != interrupted && snoozes < SNOOZES -> snoozes++; outcome = snooze
        fi
    }
}

/* Half-open: only the probe counts. Closed: runs claimed before the last change do not. */
inline count_result() {
    if
    :: outcome == snooze || outcome == interrupted
#ifdef ANY_RESULT_COUNTS
    :: outcome == complete && state != closed -> assert(probing[j]); change_circuit(closed)
    :: outcome == fail && state != closed -> assert(probing[j]); change_circuit(open); cooled = false
#else
    :: outcome == complete && state != closed && IS_PROBE ->
        assert(probing[j]); change_circuit(closed)
    :: outcome == fail && state != closed && IS_PROBE ->
        assert(probing[j]); change_circuit(open); cooled = false
    :: (outcome == complete || outcome == fail) && state != closed && !IS_PROBE
#endif
    :: (outcome == complete || outcome == fail) && state == closed ->
        if
#ifndef OLD_RUNS_COUNT
        :: claimed_at[j] < changed_at
#endif
        :: else ->
            assert(claimed_at[j] == changed_at);          /* what opens it happened since it closed */
            if
            :: outcome == complete -> failures = 0; in_a_row = 0
            :: outcome == fail && failures < THRESHOLD - 1 -> failures++; in_a_row++
            :: outcome == fail && failures >= THRESHOLD - 1 ->
                assert(in_a_row == THRESHOLD - 1); change_circuit(open); cooled = false
            fi
        fi
    fi
}

inline settle() {
    atomic {
        if
        :: status[j] == running && lease[j] == key ->
            printf("function %d settles job %d under lease %d: %e\n", _pid, j, key, outcome);
            count_result();
            status[j] = (outcome == complete -> completed : queued);
            lease[j] = 0; expired[j] = false; probing[j] = false; orphaned[j] = false; claimed_at[j] = 0
        :: else -> printf("function %d has lost lease %d\n", _pid, key)
        fi
    }
}

inline cool_down() {
    atomic { state == open && !cooled -> cooled = true; printf("the cooldown is over\n") }
}

inline expire(n) {
    atomic {
        status[n] == running && !expired[n] && (orphaned[n] || freezes < FREEZES) ->
        if
        :: orphaned[n]
        :: else -> freezes++
        fi;
        expired[n] = true; printf("lease %d ends\n", lease[n])
    }
}

inline die() {
    atomic {
        deaths < DEATHS -> deaths++;
        if
        :: status[j] == running && lease[j] == key -> orphaned[j] = true
        :: else
        fi;
        printf("function %d is killed\n", _pid)
    }
}

active [2] proctype function() {
    byte key;
    bit j;
    mtype outcome;
end:
    do
    :: if
       :: claim()
       :: pick_probe()
       :: take_over()
       fi;
       if
       :: run_handler();
          settle()
       :: die()
       fi;
       atomic { key = 0; j = 0; outcome = 0 }
    od
}

active proctype time() {
end:
    do
    :: cool_down()
    :: expire(0)
    :: expire(1)
    od
}

init {
    atomic { status[0] = queued; status[1] = queued }
}

/* A vendor that works again gets its jobs: the circuit stays open for none of them. */
active proctype end_of_time() {
    timeout -> assert(status[0] == completed && status[1] == completed)
}

/* Waking with pg_net: due work is never without a tick or a recorded wake.

An enqueue wakes a tick, unless one waits for jobs; less than a second after the last wake it records one in the row of
giftcard_wakes instead, which pg_cron sends. A tick that ends wakes the next for what it leaves, or plans it. Each call
is one transaction; no clock calls here. clock.pml lets calls overlap, and needs the clock. */

#define JOBS    3
#define RETRIES 1  /* a job that is due again later */
#define LIMIT   1  /* jobs that a tick starts */

mtype = { none, at_once, in_a_second, at_next_due };        /* due_at */
mtype = { drained, limit, budget };                         /* why a tick ends */

byte due, later, done;                                      /* jobs */
bool live[2];                                               /* rows of giftcard_ticks that have not ended */
byte started[2];
mtype due_at = none;                                        /* the row of giftcard_wakes */
bool recent;                                                /* sent_at is less than a second ago */
byte calls;                                                 /* that pg_net, or the clock, has under way */
byte retries;

#define WAITS(n) (live[n] && started[n] < LIMIT)
#define AWAITED  (WAITS(0) || WAITS(1))

/* The promise. */
inline check() {
#if !defined(CLOCK)
    assert(due == 0 || live[0] || live[1] || due_at != none || calls > 0)
#else
    skip
#endif
}

/* awaited: a tick waits for jobs, as the call has seen it. */
inline take_wake(awaited) {
    if
    :: awaited -> printf("  a tick waits: no wake\n")
    :: !(awaited) && recent ->
#ifndef WAKE_NOT_RECORDED
        due_at = in_a_second;
#endif
        printf("  the last wake was just now: the next is %e\n", due_at)
    :: else -> recent = true; due_at = none; calls++; printf("  a wake is sent\n")
    fi
}

inline enqueue() {
#ifdef CALLS_OVERLAP
    atomic { jobs < JOBS -> jobs++; spared = AWAITED; printf("an enqueue begins\n") };
    atomic { due++; printf("the enqueue commits\n"); take_wake(spared); check() }
#else
    atomic { jobs < JOBS -> jobs++; due++; printf("a job is enqueued\n"); take_wake(AWAITED); check() }
#endif
}

/* Plan the next wake, by a tick that ends: it knows when the next job is due. */
inline plan_wake() {
#ifndef PLAN_NOT_RECORDED
    due_at = (later > 0 -> at_next_due : none);
#endif
    printf("  the next wake is %e\n", due_at)
}

inline wake_after() {
    if
#ifndef LIMIT_WAKES_NONE
    :: why != drained && due > 0 -> take_wake(AWAITED)
#endif
    :: else -> plan_wake()
    fi
}

/* What a scan finds: a job to start, or a reason to end; without one the tick waits. */
inline scan() {
    if
    :: due > 0 && started[me] < LIMIT ->
        due--; started[me]++; live[me] = true; runs = true; printf("tick %d claims a job\n", me)
    :: started[me] >= LIMIT -> ends = true; why = limit
    :: due == 0 && started[me] < LIMIT -> ends = true; why = drained
    :: due == 0 && started[me] < LIMIT && later > 0 -> live[me] = true; printf("tick %d waits\n", me)
    fi
}

inline end_tick() {
    if
    :: ends -> printf("tick %d ends: %e\n", me, why); live[me] = false; started[me] = 0; wake_after()
    :: else
    fi
}

inline begin_tick() {
    atomic {
        calls > 0 -> calls--; ends = false; runs = false; printf("tick %d begins\n", me);
        scan(); end_tick(); check()
    }
}

inline settle() {
    if
    :: runs && retries < RETRIES -> retries++; later++; printf("tick %d settles its job: due later\n", me)
    :: runs -> done++; printf("tick %d settles its job: done\n", me)
    :: !runs
    fi;
    runs = false
}

inline advance_tick() {
    atomic {
        !ends && (runs || due > 0 || later == 0) -> settle(); scan();
#ifndef CALLS_OVERLAP
        end_tick(); check()
#endif
    };
#ifdef CALLS_OVERLAP
    atomic { end_tick(); check() }
#endif
}

/* The budget is over: what is left is another tick's. */
inline stop() {
    atomic { !ends && !runs -> ends = true; why = budget; end_tick(); check() }
}

proctype tick(bit me) {
    bool ends, runs;
    mtype why;
end:
    do
    :: begin_tick();
       do
       :: ends -> break
       :: advance_tick()
       :: stop()
       od
    od
}

inline send_due_wake() {
    atomic {
        due_at == at_once -> printf("pg_cron finds a wake that is due\n");
        if
        :: AWAITED -> due_at = none; printf("  a tick waits: no wake\n")
        :: else -> take_wake(false)
        fi;
        check()
    }
}

inline second_passes() {
    atomic {
        recent -> recent = false; due_at = (due_at == in_a_second -> at_once : due_at); printf("a second passes\n")
    }
}

inline job_is_due() {
    atomic {
        later > 0 -> later--; due++; due_at = (due_at == at_next_due -> at_once : due_at);
        printf("the job that waits is due\n"); check()
    }
}

active proctype time() {
end:
    do
    :: send_due_wake()
    :: second_passes()
    :: job_is_due()
    od
}

active proctype client() {
    byte jobs;
#ifdef CALLS_OVERLAP
    bool spared;
#endif
end:
    do
    :: enqueue()
    od
}

#if defined(CLOCK)
/* Once a minute, when nothing else goes on any more. */
active proctype clock() {
end:
    do
    :: atomic { timeout && !(due == 0 && later == 0) -> calls++; printf("the clock calls\n") }
    od
}
#endif

init {
    atomic { run tick(0); run tick(1) }
}

#define IDLE (due == 0 && later == 0)

active proctype end_of_time() {
#if defined(CLOCK)
    (timeout && IDLE) -> assert(done == JOBS)
#else
    timeout -> assert(IDLE && done == JOBS)
#endif
}

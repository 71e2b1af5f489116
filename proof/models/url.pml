/* Waking with url: work is never without a tick, a call that is under way, or a tick that asks again.

An enqueue wakes a tick, unless one waits for jobs. Less than a second after the last wake it cannot, and nothing records
that: so a tick without work stays until the second is over, and one that reaches its limit sooner asks again after a
second. What is due later has a tick that waits for it, and wakes the next at its end. Each call is
one transaction; a budget is longer than a second; no clock calls here. */

#define JOBS    3
#define RETRIES 1  /* a job that is due again later */
#define LIMIT   1  /* jobs that a tick starts */

mtype = { drained, limit, budget };                         /* why a tick ends */

byte due, later, done;                                      /* jobs */
bool live[2];                                               /* rows of giftcard_ticks that have not ended */
byte started[2];
bool recent;                                                /* sent_at is less than a second ago */
byte calls;                                                 /* of the own address that are under way */
bool asks[2];                                               /* a tick that has ended, until a second has passed */
bool passed[2];
byte retries;

#define WAITS(n) (live[n] && started[n] < LIMIT)
#define AWAITED  (WAITS(0) || WAITS(1))
#ifndef ENDS_IN_THE_SECOND
#define MAY_END  (later == 0 && !recent)
#else
#define MAY_END  (later == 0)
#endif
#ifndef LATER_IS_LEFT
#define LEFT     (due + later > 0)
#else
#define LEFT     (due > 0)
#endif

/* The promise. */
inline check() {
    assert(due + later == 0 || live[0] || live[1] || asks[0] || asks[1] || calls > 0)
}

inline take_wake() {
    if
    :: AWAITED -> printf("  a tick waits: no wake\n")
    :: !AWAITED && recent -> printf("  the last wake was just now: no wake\n")
    :: else -> recent = true; calls++; printf("  a wake is sent\n")
    fi
}

inline enqueue() {
    atomic { jobs < JOBS -> jobs++; due++; printf("a job is enqueued\n"); take_wake(); check() }
}

inline wake_after() {
    if
    :: why != drained && LEFT && !AWAITED && !recent -> take_wake()
#ifndef ASKS_NOT
#ifdef ASKS_FOR_WHAT_IS_LEFT
    :: why != drained && LEFT && !AWAITED && recent ->
#else
    :: why == limit && !AWAITED && recent ->
#endif
        asks[me] = true; passed[me] = false; printf("  tick %d will ask again\n", me)
#endif
    :: else -> printf("  no wake\n")
    fi
}

inline ask_again() {
    atomic { asks[me] && passed[me] -> asks[me] = false; printf("tick %d asks again\n", me); take_wake(); check() }
}

/* What a scan finds: a job to start, or a reason to end; without one the tick waits. */
inline scan() {
    if
    :: due > 0 && started[me] < LIMIT ->
        due--; started[me]++; live[me] = true; runs = true; printf("tick %d claims a job\n", me)
    :: started[me] >= LIMIT -> ends = true; why = limit
    :: due == 0 && started[me] < LIMIT && MAY_END -> ends = true; why = drained
    :: due == 0 && started[me] < LIMIT && !MAY_END -> live[me] = true; printf("tick %d waits\n", me)
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
        calls > 0 && !asks[me] -> calls--; ends = false; runs = false; printf("tick %d begins\n", me);
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
    atomic { !ends && (runs || due > 0 || MAY_END) -> settle(); scan(); end_tick(); check() }
}

/* The budget is over: what is left is another tick's. */
inline stop() {
    atomic { !ends && !runs && !recent -> ends = true; why = budget; end_tick(); check() }
}

proctype tick(bit me) {
    bool ends, runs;
    mtype why;
end:
    do
    :: ask_again()
    :: begin_tick();
       do
       :: ends -> break
       :: advance_tick()
       :: stop()
       od
    od
}

inline second_passes() {
    atomic { recent -> recent = false; passed[0] = true; passed[1] = true; printf("a second passes\n") }
}

inline job_is_due() {
    atomic { later > 0 -> later--; due++; printf("the job that waits is due\n"); check() }
}

/* A job that is due later may be waited for by one tick after the other: seconds pass. */
active proctype time() {
end:
    do
    :: second_passes();
progress:
       skip
    :: job_is_due()
    od
}

active proctype client() {
    byte jobs;
end:
    do
    :: enqueue()
    od
}

init {
    atomic { run tick(0); run tick(1) }
}

active proctype end_of_time() {
    timeout -> assert(due + later == 0 && done == JOBS)
}

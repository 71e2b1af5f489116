/* once(): an effect at a vendor happens once, however many runs its job has.

Runs of one job, one after the other; each may be killed or frozen at any point, so that it goes on beside the next one.
The vendor knows idempotency keys for as long as the setting states (`old`: longer ago), keeps what it answered under
each, and may decline, or refuse a request before it looks at the key. An answer may come too late. */

#define RUNS     3
#define KEYS     4  /* generations of the key; 0: none */
#define DECLINES 1
#define REFUSALS 1

mtype = { nothing, charged, declined, refused };            /* what the vendor answers, and keeps under a key */
mtype = { new, unfinished, finished };                      /* state of an effect, as a begin returns it */

/* The job's lease (0: it is queued), and its row of giftcard_effects. */
byte lease;
bool expired, completed;
byte generation = 1;
byte tries;
bool started, old, result;

/* The vendor: what it keeps under each key, what is in its books, requests that are under way. */
mtype kept[KEYS + 1], books[KEYS + 1];
byte under_way[RUNS + 1];
mtype answer[RUNS + 1];
byte charges, declines, refusals, requests;

/* Only for the proof: whose time to run is over, and how many runs there were. */
bool over[RUNS + 1];
byte runs;

inline claim() {
    atomic {
        !completed && (lease == 0 || expired) && runs + 1 == me ->
        runs++; lease = me; expired = false;
        printf("run %d begins\n", me)
    }
}

/* Only the run that holds the lease begins an effect, or finds that it was begun. */
inline begin_effect() {
    atomic {
        if
        :: lease != me -> found = nothing; printf("run %d has lost its lease\n", me); goto ends
        :: else
        fi;
        key = generation; age = old;
        if
        :: result -> state = finished
        :: !result && started -> state = unfinished
        :: else -> state = new; started = true
        fi;
        tries++; my_tries = tries;
#ifdef JOURNAL_SKIPPED
        state = new; age = false;
#endif
#ifdef KEY_PER_ATTEMPT
        key = me;
#endif
#ifdef AGE_IGNORED
        age = false;
#endif
        printf("run %d begins the effect: %e, key %d\n", me, state, key)
    }
}

/* No client sends a request once the time to run is over. */
inline send() {
    atomic {
        if
#ifndef DEADLINE_IGNORED
        :: over[me] -> printf("run %d is too late to send\n", me); goto ends
#endif
        :: else -> under_way[me] = key; requests++; printf("run %d sends key %d\n", me, key)
        fi
    }
}

inline receive() {
    atomic {
        answer[me] != nothing -> found = answer[me];
        printf("run %d receives: %e\n", me, found)
    }
}

/* The first result stays, whatever lease the job has now. */
inline finish_effect() {
    atomic { result = true; printf("run %d records the result\n", me); assert(charges == 1) }
}

/* A new key, if this one is still the effect's, has no result, and no other run has begun it since. */
#ifdef ABANDONS_ANY_KEY
#define SAME_KEY true
#else
#define SAME_KEY (generation == key)
#endif
#ifdef TRIES_NOT_COMPARED
#define LAST_TRY true
#else
#define LAST_TRY (tries == my_tries)
#endif

inline abandon_effect() {
    atomic {
        if
        :: SAME_KEY && LAST_TRY && !result ->
            assert(generation < KEYS); generation++; started = false; old = false; tries = 0;
            printf("run %d abandons key %d\n", me, key)
        :: else -> printf("run %d leaves key %d as it is\n", me, key)
        fi
    }
}

/* Ask the vendor what is in its books, and record the answer. Assumed: what earlier runs have sent under this key has
arrived by then, since this run was refused, or the key is old. */
#define EARLIER_UNDER_WAY ((me > 1 && under_way[1] == key) || (me > 2 && under_way[2] == key))

inline look_up() {
    atomic { !EARLIER_UNDER_WAY -> found = books[key]; printf("run %d looks key %d up: %e\n", me, key, found) };
    if
    :: found == charged -> finish_effect()
    :: else -> abandon_effect()
    fi
}

inline settle() {
    atomic {
        if
        :: lease == me && result -> completed = true; lease = 0; assert(charges == 1); printf("run %d completes\n", me)
        :: lease == me && !result -> lease = 0; printf("run %d fails\n", me)
        :: else -> printf("run %d has lost its lease\n", me)
        fi
    }
}

proctype job_run(byte me) {
    byte key, my_tries;
    bool age;
    mtype state, found = nothing;

end:
    claim();
again:
    begin_effect();
    if
    :: state == finished -> goto settles
    :: state == unfinished && age ->
        look_up();
        if
        :: found == charged -> goto settles
        :: else -> found = nothing; goto again
        fi
    :: else
    fi;
    send();
    if
    :: receive()
    :: over[me] -> goto settles            /* no answer within its time */
    fi;
    if
    :: found == charged -> finish_effect()
    :: found == declined -> abandon_effect()
#ifdef REFUSAL_TRUSTED
    :: found == refused -> abandon_effect()
#else
    :: found == refused && state == new -> abandon_effect()
    :: found == refused && state != new -> look_up()
#endif
    fi;
settles:
    settle();
ends:
    skip
}

inline deed() {
    if
    :: kept[key] != nothing -> found = kept[key]
    :: kept[key] == nothing -> found = charged; charges++; books[key] = charged
    :: kept[key] == nothing && declines < DECLINES -> found = declined; declines++
    fi;
    kept[key] = found
}

inline serve() {
    atomic {
        under_way[1] + under_way[2] + under_way[3] > 0 ->
        if
        :: under_way[1] -> who = 1
        :: under_way[2] -> who = 2
        :: under_way[3] -> who = 3
        fi;
        key = under_way[who]; under_way[who] = 0; requests--;
        if
        :: deed()
        :: refusals < REFUSALS -> refusals++; found = refused
        fi;
        answer[who] = found;
        printf("the vendor answers run %d, key %d: %e\n", who, key, found);
        assert(charges <= 1);              /* the promise */
        who = 0; key = 0; found = nothing
    }
}

active proctype vendor() {
    byte who, key;
    mtype found = nothing;
end:
    do
    :: serve()
    od
}

/* The time to run of a run ends, then its lease, with a margin between them. */
inline run_out() {
    atomic {
        lease != 0 && !over[lease] -> over[lease] = true;
        printf("the time of run %d is over\n", lease)
    }
}

inline expire() {
    atomic { lease != 0 && over[lease] && !expired -> expired = true; printf("lease %d ends\n", lease) }
}

/* A day passes: too long ago to repeat. Whatever was under way has arrived, and the vendor may forget its keys. */
inline grow_old() {
    atomic {
        started && !result && !old && requests == 0 && (lease == 0 || over[lease]) -> old = true;
        over[1] = (runs >= 1); over[2] = (runs >= 2); over[3] = (runs >= 3);
        if
        :: kept[1] = nothing; kept[2] = nothing; kept[3] = nothing; kept[4] = nothing
        :: skip
        fi;
        printf("the effect grows old\n")
    }
}

active proctype time() {
end:
    do
    :: run_out()
    :: expire()
    :: grow_old()
    od
}

init {
    byte key;
    atomic {
        for (key : 1 .. KEYS) { kept[key] = nothing; books[key] = nothing }
        for (key : 1 .. RUNS) { answer[key] = nothing }
        run job_run(1); run job_run(2); run job_run(3)
    }
}

/* No run waits for ever, and the next one begins until the job has completed. */
active proctype end_of_time() {
    timeout -> assert(completed || runs == RUNS)
}

/* The gate's protocol, for the model checker spin: two starts of gated units, while hostrouting changes two scripts.
 *
 * A comment of one word before a transition names the function of host-routing-gate.sh, or the method of boot/gate.py, that
 * it stands for; a test looks for each there. These can happen at any moment, twice in all: hostrouting is killed, systemd
 * executes itself anew so that `systemctl start` loses its connection, the wait for the lock ends before the lock is free.
 *
 * What has to be so: a start that passes was checked by the list and both scripts of one configuration; and after a change
 * is complete, a start that begins passes only with the new configuration.
 */
#define OLD 0
#define NEW 1
#define MIXED 2
#define MAY_HAPPEN (happened < 2)

byte happened = 0;

byte listed = OLD;           /* whose steps the list has */
bool changing = false;       /* whether it marks them as changing */
byte script[2] = OLD;        /* whose script is installed, for each of two steps */
bool locked = false;         /* whether hostrouting holds the lock */
bool complete = false;       /* whether hostrouting has finished its change */
bool kill = false;

/* The service: systemd runs it at most once at a time, and tells each start that waits how its run ended. */
mtype = { none, waiting, succeeded, refused, stopped };
bool running = false, ends = false;
bool is_newer[2];            /* whether its last run began after a start did */
mtype result = none;         /* of its last run */
byte checked = MIXED;        /* whose list and scripts its last run has used */
mtype job[2] = none;
byte used[2];                /* what `checked` was when the job of a start ended */

inline tell(how) {
  result = how; running = false; ends = true;
  if :: job[0] == waiting -> job[0] = how; used[0] = checked :: else fi;
  if :: job[1] == waiting -> job[1] = how; used[1] = checked :: else fi
}

proctype Service() {
  byte steps, first, second;
  bool marked;
  {
    /* read_steps */
    atomic { steps = listed; marked = changing };
    /* await_lock */
    if
    :: atomic { !locked -> skip }
    :: atomic { locked && MAY_HAPPEN -> happened++ }
    fi;
    /* read_steps */
    atomic { steps = listed; marked = changing };
    if
    :: d_step { marked -> tell(refused) }
    :: atomic { !marked ->
        /* run_step */
        first = script[0] };
      /* run_step */
      second = script[1];
      /* pass */
      d_step { checked = (first == steps && second == steps -> steps : MIXED); tell(succeeded) }
    fi
  } unless { !running };
  ends = false
}

proctype Start(byte me) {
  byte tries = 0;
  bool after;
  atomic { after = complete; is_newer[me] = false };
again:
  if :: tries == 3 -> goto refuses :: else -> tries++ fi;  /* the script tries 60 times */
  /* ask */
  if
  :: atomic {
      !ends -> job[me] = waiting;
      if
      :: !running -> running = true; result = none; is_newer[0] = true; is_newer[1] = true; run Service()
      :: else
      fi }
  :: atomic { MAY_HAPPEN -> happened++; job[me] = none }  /* systemd executes itself anew before it has heard */
  fi;
  if
  :: atomic { job[me] != waiting -> skip }
  :: atomic { job[me] == waiting && MAY_HAPPEN -> happened++; job[me] = none }  /* systemd executes itself anew */
  fi;
  if
  :: atomic { job[me] == succeeded -> goto passes }
  :: atomic { job[me] != succeeded ->
      /* take_result */
      if
      :: !running && result == succeeded && is_newer[me] -> used[me] = checked; goto passes
      :: !running && result == refused -> goto refuses
      :: else -> goto again
      fi }
  fi;
passes:
  assert(used[me] != MIXED);
  assert(!after || used[me] == NEW);
refuses:
  skip
}

active proctype Hostrouting() {
again:
  {
    /* it locks the host */
    atomic { !locked -> locked = true };
    /* put_up */
    /* _list */
    atomic { listed = NEW; changing = true };
    /* _stop_gate */
    d_step { if :: running -> tell(stopped) :: else fi };
    /* install */
    script[0] = NEW;
    /* install */
    script[1] = NEW;
    /* _list */
    changing = false;
    atomic { complete = true; locked = false }
  } unless { atomic { kill && !complete -> kill = false; locked = false; goto again } }
}

/* Kills hostrouting; somebody starts it again. */
active proctype Killer() {
  do
  :: atomic { !complete && !kill && MAY_HAPPEN -> happened++; kill = true }
  :: complete -> break
  od
}

init {
  atomic { run Start(0); run Start(1) }
}

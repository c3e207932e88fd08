/* End firnd: revoke its leases first, so that the other nodes need not wait for them to expire. */
#pragma once

struct daemon;

/** ending_say_goodbye() - deregister, then leave; no effect when called again */
void ending_say_goodbye(struct daemon *daemon, int exit_code);
/** ending_leave() - end the loop; the leases expire on their own */
void ending_leave(struct daemon *daemon, int exit_code);

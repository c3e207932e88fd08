/* A listening socket on 127.0.0.1 for servers that answer from a script. */
#pragma once

/** listener_open() - Open a listener, to be closed by the caller; @ret_port: the port that the
 * system chose */
int listener_open(unsigned *ret_port);

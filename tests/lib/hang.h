/*
 * hang.h - clients with allow_store_down whose server takes connections and does not answer.
 *
 * Each needs a real server, which it reaches through a proxy. `url` has a %d for the proxy's port,
 * and a connect-timeout of HANG_CONNECT.
 */
#ifndef SIMBA_TEST_HANG_H
#define SIMBA_TEST_HANG_H

#define HANG_CONNECT "connect-timeout=4s"

/* The server never answers: while an attempt hangs a stop and the close of the client return
 * soon. */
void hang_check_close(int server_port, const char *url);

/* The server comes, and answers nobody any more once a connection to it has ended: an acquire ends
 * with its time-out. */
void hang_check_opened_once(int server_port, const char *url);

#endif

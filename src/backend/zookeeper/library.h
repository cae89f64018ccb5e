/*
 * library.h - the header of the client library, as its multi-threaded variant needs it.
 */
#ifndef SB_ZK_LIBRARY_H
#define SB_ZK_LIBRARY_H

#define THREADED
#ifdef SIMBA_HAVE_ZOOKEEPER_TLS
#define HAVE_OPENSSL_H
#endif
#include <zookeeper/zookeeper.h>

#endif

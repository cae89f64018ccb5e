/*
 * The public headers, as an application sees them: strict C99 here, and C++ in headers.cpp, which
 * includes this file. That it compiles and links to the shared library is what it shows.
 */
#include <simba/backend.h>
#include <simba/sql.h>
#include <simba/simba.h>
#include <simba/tck.h>

int main(void)
{
    struct simba_client_options client = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_observer_options observer = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options scheduler = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_tck_options tck = SIMBA_TCK_OPTIONS_INIT;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_state state = SIMBA_STATE_NONE;

    if (client.size != sizeof(client) || contender.size != sizeof(contender) ||
        observer.size != sizeof(observer) || scheduler.size != sizeof(scheduler) ||
        tck.size != sizeof(tck) || reply.code != SIMBA_OK)
        return 1;
    return simba_state_is_changed(&state) ? 1 : 0;
}

/*
 * tls.c - loads what encrypts when it is wanted for the first time. Must not know how that does it.
 */
#include "backend/module.h"
#include "backend/wire/stream.h"

#include "base/error.h"

int sb_wire_tls_create(const struct sb_wire_tls_options *options, struct sb_wire_tls **ret_tls,
                       struct simba_error *error)
{
    const struct sb_wire_tls_ops *ops;
    int code = sb_module_load_tls(&ops, error);

    return code == SIMBA_OK ? ops->create(options, ret_tls, error) : code;
}

void sb_wire_tls_free(struct sb_wire_tls *tls)
{
    if (tls != NULL)
        tls->ops->destroy(tls);
}

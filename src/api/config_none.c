/*
 * config_none.c - stands in for config_yaml.c where libyaml is missing.
 */
#include "api/config.h"

#include "base/error.h"

int sb_config_load(struct sb_config *config, const char *text, size_t size,
                   struct simba_error *error)
{
    (void)text;
    (void)size;
    return sb_error_set(error, SIMBA_EUNSUPPORTED,
                        "%.100s cannot be read: this build has no libyaml", config->name);
}

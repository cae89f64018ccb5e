/*
 * url_param.c - the parameters of a URL, and which of them were asked for.
 *
 * User and password may stand among them, and then count as asked for when somebody asks for the user or
 * the password: a store that has no such thing refuses them like any other option that it does not know.
 */
#include "base/error.h"
#include "base/url_parts.h"

#include <string.h>

static void mark_used(struct param *param)
{
    for (; param != NULL; param = param->source)
        param->used = true;
}

struct param *sb_url_find_param(simba_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].name, name) == 0)
            return &url->params[i];
    return NULL;
}

const char *simba_url_user(const simba_url *url)
{
    mark_used(url->user_source);
    return url->user;
}

const char *simba_url_password(const simba_url *url)
{
    mark_used(url->password_source);
    return url->password;
}

const char *simba_url_param(simba_url *url, const char *name)
{
    struct param *param = sb_url_find_param(url, name);

    mark_used(param);
    return param != NULL ? param->value : NULL;
}

int simba_url_duration(simba_url *url, const char *name, int64_t *value, struct simba_error *error)
{
    const char *text = simba_url_param(url, name);
    struct simba_error why;

    if (text == NULL || simba_duration_parse(text, value, &why) == SIMBA_OK)
        return SIMBA_OK;
    return sb_error_set(error, why.code, "the URL's parameter '%s': %s", name, why.text);
}

const char *sb_url_unused_param(const simba_url *url)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (!url->params[i].used)
            return url->params[i].name;
    return NULL;
}

int simba_url_check_params(const simba_url *url, struct simba_error *error)
{
    const char *unused = sb_url_unused_param(url);

    if (unused == NULL)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG, "a URL that begins with '%s:' has no option '%s'",
                        url->scheme, unused);
}

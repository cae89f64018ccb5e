/*
 * url_param.c - the parameters of a URL, and which of them were asked for.
 *
 * User and password may stand among them, and then count as asked for when somebody asks for the
 * user or the password: a store that has no such thing refuses them like any other option that it
 * does not know.
 */
#include "base/error.h"
#include "base/url_parts.h"

#include <string.h>

static void mark_used(struct param *param)
{
    for (; param != NULL; param = param->source)
        param->used = true;
}

/* Remembers what may have been meant by parameters that nobody knows. */
static void offer(simba_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        sb_near_offer(&url->params[i].near, url->params[i].name, name);
}

struct param *sb_url_find_param(simba_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].name, name) == 0)
            return &url->params[i];
    return NULL;
}

size_t sb_url_param_count(const simba_url *url)
{
    return url->param_count;
}

const char *sb_url_param_name(const simba_url *url, size_t index)
{
    return url->params[index].name;
}

const char *sb_url_param_value(const simba_url *url, size_t index)
{
    return url->params[index].value;
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
    offer(url, name);
    return param != NULL ? param->value : NULL;
}

int simba_url_duration(simba_url *url, const char *name, int64_t *value, struct simba_error *error)
{
    const char *text;
    struct simba_error why;

    if (url == NULL || name == NULL || value == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_url_duration needs a URL, the name of a parameter and value");
    text = simba_url_param(url, name);
    if (text == NULL || simba_duration_parse(text, value, &why) == SIMBA_OK)
        return SIMBA_OK;
    return sb_error_set(error, why.code, "the URL's parameter '%s': %s", name, why.text);
}

static const struct param *find_unused(const simba_url *url)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (!url->params[i].used)
            return &url->params[i];
    return NULL;
}

const char *sb_url_unused_param(const simba_url *url)
{
    const struct param *unused = find_unused(url);

    return unused != NULL ? unused->name : NULL;
}

/* Stores that have hosts have users. */
static struct sb_near find_meant(const simba_url *url, const struct param *unused)
{
    static const char *const names[] = {"user", "password", "password-file", "password-env"};
    struct sb_near near = unused->near;

    for (size_t i = 0; i < sizeof names / sizeof names[0] && url->host_count > 0; i++)
        sb_near_offer(&near, unused->name, names[i]);
    return near;
}

int simba_url_check_params(const simba_url *url, struct simba_error *error)
{
    const struct param *unused;
    struct sb_near near;

    if (url == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_url_check_params needs a URL");
    unused = find_unused(url);
    if (unused == NULL)
        return SIMBA_OK;
    near = find_meant(url, unused);
    if (near.name[0] == '\0' || near.distance == 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "a URL that begins with '%s:' has no option '%.100s'", url->scheme,
                            unused->name);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "a URL that begins with '%s:' has no option '%.100s'; did you mean '%s'?",
                        url->scheme, unused->name, near.name);
}

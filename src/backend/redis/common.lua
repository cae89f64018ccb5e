-- Stands before every script. KEYS: the owner, the wait queue, the counter behind the token, all of one
-- mutex. A script does everything that can fail before the first change that matters, so that an error
-- always means "nothing was granted and nothing was given back".
local key, queue, counter = KEYS[1], KEYS[2], KEYS[3]

-- Beyond 2^53 a Lua number cannot count. What is no such number is somebody's mistake and counts as none.
local function read_token()
    local token = tonumber(redis.call('GET', counter) or 0)
    if token and token >= 0 and token < 9007199254740992 then
        return math.floor(token)
    end
    return 0
end

local function write_token(token)
    redis.call('SET', counter, string.format('%.0f', token))
    return token
end

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Owner (false for nobody), what is left of its lease, the token.
local function record(owner, left_ms, token)
    return { owner, left_ms, string.format('%.0f', token) }
end

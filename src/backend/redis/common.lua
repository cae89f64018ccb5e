-- Stands before every script. KEYS: the owner, the wait queue, the counter behind the token, all of one
-- mutex. The answer of every script: the owner (false for nobody), what is left of its lease, the token.
-- An error always means that nothing was granted and nothing was given back.
local call, key, queue, counter, id = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]

-- Beyond 2^53 a Lua number cannot count. What is no such number is somebody's mistake and counts as none.
local token = tonumber(call('GET', counter) or 0) or 0
if not (token >= 0 and token < 9007199254740992) then
    token = 0
end

-- The server's time in microseconds, which stays below 2^53 until the year 2255.
local function now()
    local time = call('TIME')
    return time[1] * 1000000 + time[2]
end

-- In plain digits, whatever the server makes of large Lua numbers.
local function count(value)
    token = value
    call('SET', counter, string.format('%.0f', value))
end

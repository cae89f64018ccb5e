-- ARGV: id, lease in milliseconds, the largest token that the client has seen of any mutex; then, where they are
-- needed, the largest token that the contender knows of this mutex, for how many milliseconds it has been waiting,
-- 'place' where it wants its place in the queue, the waiter that its own release has told to try, and the token of
-- the term that ended so.
local lease_ms, time = ARGV[2], call('TIME')
local lost, owner, left_ms = false, id, 0

if ARGV[7] and ARGV[7] ~= id and token == tonumber(ARGV[8]) and not call('GET', key) then
    -- It does not overtake the waiter that it has told, as long as nobody has come since. If that one never comes,
    -- it takes part again after a second.
    lost, owner, left_ms = true, ARGV[7], 1000
elseif not call('SET', key, id, 'NX', 'PX', lease_ms) then
    owner = call('GET', key)
    lost = owner ~= id
    if lost then
        left_ms = call('PTTL', key)
    else
        call('SET', key, id, 'PX', lease_ms)
    end
end
if lost then
    -- A release may have taken it out of the queue, and then somebody was faster: it has its place back.
    call('ZADD', queue, 'NX', time[1] + time[2] / 1000000 - (ARGV[5] or 0) / 1000, id)
    local before = ARGV[6] == 'place' and redis.pcall('ZRANK', queue, id) -- refused: it does without
    return { owner, left_ms, token, type(before) == 'number' and before + 1 or nil }
end

-- At least the time of day, and more than the client has seen: so a server that lost its data, or went back
-- to older data, still hands out larger tokens than before. A token seen elsewhere that is more than a day
-- ahead of the clock is a mistake, which must not spread.
local micros = time[2]
local now_us = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
local now, seen = tonumber(now_us), tonumber(ARGV[3])
if seen > now + 86400000000 then
    seen = 0
end
token = math.max(token + 1, (ARGV[4] or 0) + 1, seen + 1, now)
call('SET', counter, token == now and now_us or string.format('%.0f', token))

-- These two can be refused. Then the mutex is not held.
local left = redis.pcall('ZREM', queue, id)
local told = redis.pcall('PUBLISH', key, 'acquired@@' .. id)
if type(left) == 'table' or type(told) == 'table' then
    call('DEL', key)
    return type(left) == 'table' and left or told
end
return token

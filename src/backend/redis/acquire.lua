-- ARGV: id, lease in milliseconds, the largest token that the client has seen of any mutex, and the largest one
-- that the contender knows of this mutex, where it knows any; and anything where it wants its place in the queue.
local lease_ms, time = ARGV[2], call('TIME')

if not call('SET', key, id, 'NX', 'PX', lease_ms) then
    local owner = call('GET', key)
    if owner ~= id then
        call('ZADD', queue, 'NX', string.format('%s.%06d', time[1], time[2]), id)
        local before = ARGV[5] and redis.pcall('ZRANK', queue, id) -- refused: it does without
        return { owner, call('PTTL', key), token, type(before) == 'number' and before + 1 or nil }
    end
    call('SET', key, id, 'PX', lease_ms)
end

-- At least the time of day, and more than the client has seen: so a server that lost its data, or went back
-- to older data, still hands out larger tokens than before. A token seen elsewhere that is more than a day
-- ahead of the clock is a mistake, which must not spread.
local now_us = time[1] .. string.sub('00000' .. time[2], -6)
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

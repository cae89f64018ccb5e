-- ARGV: id, lease in milliseconds, the largest token that the contender knows of, the largest token that its
-- client has seen of any mutex.
local lease_ms = ARGV[2]

if not call('SET', key, id, 'NX', 'PX', lease_ms) then
    local owner = call('GET', key)
    if owner ~= id then
        call('ZADD', queue, 'NX', string.format('%.6f', now() / 1000000), id)
        return { owner, call('PTTL', key), token }
    end
    call('SET', key, id, 'PX', lease_ms)
end

-- At least the time of day, and more than the client has seen: so a server that lost its data, or went back
-- to older data, still hands out larger tokens than before. A token seen elsewhere that is more than a day
-- ahead of the clock is a mistake, which must not spread.
local time, seen = now(), tonumber(ARGV[4])
if seen > time + 86400000000 then
    seen = 0
end
count(math.max(token + 1, ARGV[3] + 1, seen + 1, time))

-- These two can be refused. Then the mutex is not held.
local left = redis.pcall('ZREM', queue, id)
local told = redis.pcall('PUBLISH', key, 'acquired@@' .. id)
if type(left) == 'table' or type(told) == 'table' then
    call('DEL', key)
    return type(left) == 'table' and left or told
end
return { id, tonumber(lease_ms), token }

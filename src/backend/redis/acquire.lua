-- ARGV: id, lease in milliseconds, the largest token that the contender knows of.
local lease_ms = ARGV[2]

if not call('SET', key, id, 'NX', 'PX', lease_ms) then
    local owner = call('GET', key)
    if owner ~= id then
        local time = call('TIME')
        call('ZADD', queue, 'NX', string.format('%s.%06d', time[1], time[2]), id)
        return { owner, call('PTTL', key), token }
    end
    call('SET', key, id, 'PX', lease_ms)
end

-- At least the time of day: so a server that lost its data, or went back to older data, still hands out
-- larger tokens than before.
local time = call('TIME')
token = math.max(token + 1, ARGV[3] + 1, time[1] * 1000 + math.floor(time[2] / 1000))
call('SET', counter, token)

-- These two can be refused. Then the mutex is not held.
local left = redis.pcall('ZREM', queue, id)
local told = redis.pcall('PUBLISH', key, 'acquired@@' .. id)
if type(left) == 'table' or type(told) == 'table' then
    call('DEL', key)
    return type(left) == 'table' and left or told
end
return { id, tonumber(lease_ms), token }

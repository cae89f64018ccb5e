-- ARGV: id, lease in milliseconds, the largest token that the contender knows of.
local id, lease_ms, known = ARGV[1], ARGV[2], tonumber(ARGV[3])
local owner = redis.call('GET', key)

if owner and owner ~= id then
    local time = redis.call('TIME')
    redis.call('ZADD', queue, 'NX', string.format('%s.%06d', time[1], time[2]), id)
    return record(owner, redis.call('PTTL', key), read_token())
end

-- At least the time of day: so a server that lost its data, or went back to older data, still hands out
-- larger tokens than before.
local token = write_token(math.max(read_token() + 1, known + 1, now_ms()))
redis.call('ZREM', queue, id)
redis.call('PUBLISH', key, 'acquired@@' .. id)
redis.call('SET', key, id, 'PX', lease_ms)
return record(id, tonumber(lease_ms), token)

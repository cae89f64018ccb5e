-- ARGV: id, lease in milliseconds, the largest token that the client has seen of any mutex; then,
-- where they are needed, the largest token that the contender knows of this mutex, since when it
-- has been waiting (0: it has not), and 'place' where it wants its place in the queue. Behind the
-- token of an attempt that lost: since when the contender waits, in microseconds of the server's
-- clock, and its place where it asked for it.
local lease_ms, known, time = ARGV[2], tonumber(ARGV[4] or 0), call('TIME')

local refused = refusal(known)
if refused then
    return refused
end
if not call('SET', key, id, 'NX', 'PX', lease_ms) then
    local owner = call('GET', key)
    if owner ~= id then
        -- A release may have taken it out of the queue, and then somebody was faster: it has its
        -- place back.
        local since_us = tonumber(ARGV[5] or 0)
        if since_us == 0 then
            since_us = time[1] * 1000000 + time[2]
        end
        call('ZADD', queue, 'NX', since_us / 1000000, id)
        -- Refused: it does without its place.
        local before = ARGV[6] == 'place' and redis.pcall('ZRANK', queue, id)
        local place = type(before) == 'number' and before + 1 or nil
        return { owner, call('PTTL', key), token, since_us, place }
    end
    -- Another contender with the same id may have been granted more.
    if call('PTTL', key) < tonumber(lease_ms) then
        call('SET', key, id, 'PX', lease_ms)
    end
end

-- At least the time of day, and more than the client has seen: so a server that lost its data, or
-- went back to older data, still hands out larger tokens than before. A token seen elsewhere that
-- is more than a day ahead of the clock is a mistake, which must not spread.
local micros = time[2]
local now_us = time[1] .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
local now, seen = tonumber(now_us), tonumber(ARGV[3])
if seen > now + 86400000000 then
    seen = 0
end
token = math.max(token + 1, known + 1, seen + 1, now)
call('SET', counter, token == now and now_us or string.format('%.0f', token))

-- These two can be refused. Then the mutex is not held.
local left = redis.pcall('ZREM', queue, id)
local told = redis.pcall('PUBLISH', key, 'acquired@@' .. id)
if type(left) == 'table' or type(told) == 'table' then
    call('DEL', key)
    return type(left) == 'table' and left or told
end

-- It came by itself in its turn: where owners only crash there is no release that takes the dead
-- out of the queue, and each would cost those behind it a turn. So a few are looked at. Refused:
-- they stay.
if left == 1 and ARGV[6] == 'place' then
    local first, channels = redis.pcall('ZRANGE', queue, 0, 7), {}
    for i, waiter in ipairs(first) do
        channels[i] = key .. ':' .. waiter
    end
    local heard = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for i, waiter in ipairs(first) do
        if heard[2 * i] == 0 then
            call('ZREM', queue, waiter)
        end
    end
end
return token

-- ARGV: id, lease in milliseconds, the largest token that the client has seen of any mutex; then,
-- where they are needed, the largest token that the contender knows of this mutex, since when it
-- has been waiting (0: it has not), and 'place' where it wants its place in the queue. With a
-- fourth key it heeds the reservation, and wants its place. Behind the token of an attempt that
-- lost: since when the contender waits, in microseconds of the server's clock, and its place where
-- it wanted it. One that lost to a reservation is answered with nobody, and what is left of that.
local lease_ms, known, time = ARGV[2], tonumber(ARGV[4] or 0), call('TIME')

local refused = refusal(known)
if refused then
    return refused
end

-- Anybody can write the key: what lasts longer than any reservation is none. A waiter that is not
-- in the queue was told to try by a release that makes no reservation, behind the one that made
-- this.
local reserved, lost, owner, left_ms = KEYS[4], false, false, nil
local first = reserved and call('GET', reserved)
if first and first ~= id and not call('GET', key) then
    left_ms = call('PTTL', reserved)
    local was_told = tonumber(ARGV[5] or 0) > 0 and redis.pcall('ZRANK', queue, id) == false
    lost = left_ms >= 0 and left_ms <= longest_reservation_ms and not was_told
end
if not lost and not call('SET', key, id, 'NX', 'PX', lease_ms) then
    owner, left_ms = call('GET', key), call('PTTL', key)
    lost = owner ~= id
    -- Another contender with the same id may have been granted more.
    if not lost and left_ms < tonumber(lease_ms) then
        call('SET', key, id, 'PX', lease_ms)
    end
end

if lost then
    -- A contender of the JVM that wins stays in the queue, and would wake itself when it releases;
    -- and it does not end the reservation. What lasts longer is the mark of a late waiter, see below.
    if owner then
        call('ZREM', queue, owner)
        if first and call('PTTL', reserved) <= longest_reservation_ms then
            call('DEL', reserved)
        end
    end
    -- A release may have taken it out of the queue, and then somebody was faster: it has its place
    -- back. The JVM's scores are whole seconds, cut off: half a second before the time that they
    -- stand for on average. So are ours, but with a fraction; otherwise the JVM's would come first.
    local waited_us = tonumber(ARGV[5] or 0)
    local clock_us = time[1] * 1000000 + time[2]
    local since_us = waited_us > 0 and waited_us or clock_us
    -- The release that made a longer reservation for it has put it at the end, a second ago at most:
    -- it came in time, and somebody was faster.
    local rank = reserved and waited_us > 0 and redis.pcall('ZRANK', queue, id)
    if type(rank) == 'number' then
        local at_us = call('ZRANGE', queue, rank, rank, 'WITHSCORES')[2] * 1000000 + 500000
        if at_us > clock_us - 1000000 and at_us > since_us + 1000 then
            call('ZREM', queue, id)
        end
    end
    local joined = call('ZADD', queue, 'NX', since_us / 1000000 - 0.5, id)
    -- A queue whose waiters are all dead ends a minute behind the lease that the last of them has
    -- seen: one that is alive has come again by then.
    local end_ms = math.min(math.max(left_ms, tonumber(lease_ms)) + 60000, 1e14)
    call('PEXPIRE', queue, string.format('%.0f', end_ms))
    -- It was told to try, and came too late. Its way may be longer than a reservation: then it would
    -- never own, and cost the others one at each release. So while the mutex is owned this key tells
    -- whose next reservation lasts longer. One that hangs does not come here.
    if reserved and owner and waited_us > 0 and joined == 1 then
        call('SET', reserved, id, 'PX', string.format('%.0f', end_ms))
    end

    -- Where an owner stays, no release takes dead waiters out of the queue, and each costs those
    -- behind it a turn. So a waiter that comes again looks at a few: at ours, because those of the
    -- JVM may listen at any node of a cluster, and not at those that came just now and may not
    -- listen yet. Refused: they stay, and it does without its place.
    local place
    if reserved or ARGV[6] == 'place' then
        local oldest = waited_us > 0 and call('ZRANGE', queue, 0, 7, 'WITHSCORES') or {}
        for i = 1, #oldest, 2 do
            local waiter, score = oldest[i], tonumber(oldest[i + 1])
            local heard = waiter ~= id and score % 1 > 0 and score < time[1] - 1
                and redis.pcall('PUBSUB', 'NUMSUB', key .. ':' .. waiter)
            if heard and heard[2] == 0 then
                call('ZREM', queue, waiter)
            end
        end
        local before = redis.pcall('ZRANK', queue, id)
        place = type(before) == 'number' and before + 1 or nil
    end
    return { owner, left_ms, token, since_us, place }
end
if first then
    call('DEL', reserved)
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

-- For those who ask since when it is held: the token may be larger than the time. Refused: nobody
-- is told. The key is in the slot of the others.
redis.pcall('SET', key .. ':since', now_us .. id, 'PX', lease_ms)

-- These two can be refused. Then the mutex is not held.
local left = redis.pcall('ZREM', queue, id)
local told = redis.pcall('PUBLISH', key, 'acquired@@' .. id)
if type(left) == 'table' or type(told) == 'table' then
    call('DEL', key)
    return type(left) == 'table' and left or told
end
return token

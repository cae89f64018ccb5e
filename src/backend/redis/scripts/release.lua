-- ARGV: id, the term's token, or 0 to give nothing back and only leave the queue; then, with a
-- fourth key, how long the mutex is reserved for the next waiter, in milliseconds.
local owner, known, reserved = call('GET', key), tonumber(ARGV[2]), KEYS[4]
local crowd = 16 -- so many wait behind the first, and another one

local is_hit = owner == id and known > 0
if is_hit then
    local refused = refusal(known)
    if refused then
        return refused
    end
    -- The counter was lost or went back: no later term can have begun since.
    if token < known then
        local lost = token == 0
        token = known
        call('SET', counter, string.format('%.0f', token))
        if not lost then
            return { owner, call('PTTL', key), token }
        end
    end
    is_hit = token == known
end

-- Tells one of the first eight waiters in that order, up to the one that was told already. Only ours
-- understand the word: their scores have a fraction.
local function tell_one(order, word, told)
    local waiters = redis.pcall(order, queue, 0, 7, 'WITHSCORES')
    for i = 1, #waiters, 2 do
        if waiters[i] == told or waiters[i + 1] % 1 > 0
            and redis.pcall('PUBLISH', key .. ':' .. waiters[i], word) ~= 0 then
            return waiters[i]
        end
    end
end

local function now_us()
    local time = call('TIME')
    return time[1] * 1000000 + time[2]
end

-- A waiter that leaves a free mutex may be the one that was told to try: then the next one is.
local wakes = is_hit
if not is_hit then
    call('ZREM', queue, id)
    local first = not owner and reserved
        and call('PTTL', reserved) <= longest_reservation_ms and call('GET', reserved)
    if first == id then
        call('DEL', reserved)
    end
    wakes = not owner and (not first or first == id)
end

-- Takes the first waiter that is alive out of the queue, and tells it to try: it comes back with
-- its old place where somebody is faster. A waiter that nobody listens for is dead. So many of them
-- are looked at, for the server does nothing else meanwhile; those behind them try when the lease
-- that they know of is over. Refused: nobody is told.
for _ = 1, wakes and 10000 or 0 do
    local waiter = call('ZPOPMIN', queue)[1]
    local heard = waiter and waiter ~= id
        and redis.pcall('PUBLISH', key .. ':' .. waiter, 'released@@' .. id)
    if not waiter or type(heard) == 'table' then
        break
    end
    if heard and heard > 0 then
        if reserved then
            -- One that was late for an earlier one gets as long as a reservation may last.
            local was_late = call('GET', reserved) == waiter
            call('SET', reserved, waiter, 'PX', was_late and longest_reservation_ms or ARGV[3])
            -- The next one comes when that is over. In case both hang the last one is told as well: in a
            -- crowd by the first release of each span of that length, or each would cost it an attempt.
            local second = tell_one('ZRANGE', 'reserved@@' .. waiter)
            local span_us = 1000 * ARGV[3]
            if second and (not is_hit or not redis.pcall('ZRANGE', queue, crowd, crowd)[1]
                or math.floor(now_us() / span_us) ~= math.floor(known / span_us)) then
                tell_one('ZREVRANGE', 'standby@@' .. waiter, second)
            end
            -- One that misses this as well goes to the end: otherwise it would cost the others a
            -- second at each release. One that wins leaves the queue.
            if was_late then
                call('ZADD', queue, now_us() / 1000000 - 0.5, waiter)
                if call('PTTL', queue) == -1 then
                    call('PEXPIRE', queue, 60000)
                end
            end
        end
        break
    end
end

if is_hit then
    call('DEL', key)
    redis.pcall('DEL', key .. ':since')
    return token
end
return { owner, call('PTTL', key), token }

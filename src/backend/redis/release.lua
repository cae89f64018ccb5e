-- ARGV: id, the term's token, or 0 to give nothing back and only leave the queue; then, where the mutex may be handed
-- on, the lease in milliseconds that its next owner gets, and the database where it is not 0.
local owner, known, lease_ms = call('GET', key), tonumber(ARGV[2]), ARGV[3]

-- A waiter that nobody listens for is dead. So many of them are looked at, for the server does nothing else
-- meanwhile; those behind them try when the lease that they know of is over.
local dead_max = 10000

if owner == id and known > 0 then
    -- The counter was lost or went back: no later term can have begun since.
    if token < known then
        local lost = token == 0
        token = known
        call('SET', counter, string.format('%.0f', token))
        if not lost then
            return { owner, call('PTTL', key), token }
        end
    end
    if token == known then
        -- An owner is not in the queue.
        local time, handed
        for _ = 1, dead_max do
            local first = call('ZPOPMIN', queue)
            local waiter, since = first[1], first[2]
            if not waiter then
                break
            end
            -- Before anybody is looked at: a lease counts from when the script began.
            time = time or lease_ms and call('TIME')
            -- A waiter of ours came at a fraction of a second, one of the JVM library at a whole one, and that must
            -- try by itself; one of ours in a million is treated the same.
            local ours = lease_ms and string.find(since, '.', 1, true)
            if ours and not handed then
                local now_us = time[1] .. string.sub('00000' .. time[2], -6)
                local its_token = token < tonumber(now_us) and now_us or string.format('%.0f', token + 1)
                if redis.pcall('SET', counter, its_token).err then
                    ours, lease_ms = false, nil -- the server is full: the waiter tries by itself
                else
                    -- The same channel may be that of another mutex and id, and is that of all databases.
                    local where = #key .. '@@' .. (ARGV[4] or 0)
                    handed = '@@handed@@' .. its_token .. '@@' .. now_us .. '@@' .. lease_ms .. '@@' .. where
                end
            end
            -- The waiter owns before it is told so: what it is told is always true. Refused: nobody is told.
            if ours then
                call('SET', key, waiter, 'PX', lease_ms)
            end
            local text = 'released@@' .. id .. (ours and handed or '')
            local heard = redis.pcall('PUBLISH', key .. ':' .. waiter, text)
            if type(heard) == 'table' then
                break
            end
            if heard > 0 and ours then
                redis.pcall('PUBLISH', key, 'acquired@@' .. waiter)
                return ARGV[2]
            end
            if heard > 0 then
                call('DEL', key)
                return { token, waiter }
            end
        end
        call('DEL', key)
        return token
    end
end

call('ZREM', queue, id)
if not owner then
    -- Perhaps it was this waiter that had been told to try. The next one is told in its place, and stays
    -- in the queue until it wins.
    for _ = 1, dead_max do
        local waiter = call('ZRANGE', queue, 0, 0)[1]
        if not waiter or call('PUBLISH', key .. ':' .. waiter, 'released@@' .. id) > 0 then
            break
        end
        call('ZREM', queue, waiter)
    end
end
return { owner, call('PTTL', key), token }

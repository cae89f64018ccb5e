-- ARGV: id, the term's token, or 0 to give nothing back and only leave the queue.
local owner, known = call('GET', key), tonumber(ARGV[2])

-- A waiter that nobody listens for is dead. So many of them are looked at, for the server does
-- nothing else meanwhile; those behind them try when the lease that they know of is over.
local dead_max = 10000
local text = 'released@@' .. id

if owner == id and known > 0 then
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
    if token == known then
        -- An owner is not in the queue. The first that is alive is told to try, and comes back into
        -- the queue, with its old place, where somebody is faster. Refused: nobody is told.
        local told
        for _ = 1, dead_max do
            local waiter = call('ZPOPMIN', queue)[1]
            local heard = waiter and redis.pcall('PUBLISH', key .. ':' .. waiter, text)
            if not waiter or type(heard) == 'table' then
                break
            end
            if heard > 0 then
                told = waiter
                break
            end
        end
        call('DEL', key)
        return told and { token, told } or token
    end
end

call('ZREM', queue, id)
if not owner then
    -- Perhaps it was this waiter that had been told to try. The next one is told in its place, and
    -- stays in the queue until it wins.
    for _ = 1, dead_max do
        local waiter = call('ZRANGE', queue, 0, 0)[1]
        if not waiter or call('PUBLISH', key .. ':' .. waiter, text) > 0 then
            break
        end
        call('ZREM', queue, waiter)
    end
end
return { owner, call('PTTL', key), token }

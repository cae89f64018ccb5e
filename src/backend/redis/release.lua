-- ARGV: id, the term's token, or 0 to give nothing back and only leave the queue.
local owner, known = call('GET', key), tonumber(ARGV[2])

if owner == id and known > 0 then
    -- The counter was lost or went back: no later term can have begun since.
    if token < known then
        local lost = token == 0
        token = known
        call('SET', counter, token)
        if not lost then
            return { owner, call('PTTL', key), token }
        end
    end
    if token == known then
        call('DEL', key)
        -- An owner is not in the queue. A waiter that nobody listens for is dead: the next one is told.
        local waiter = call('ZPOPMIN', queue)[1]
        while waiter and call('PUBLISH', key .. ':' .. waiter, 'released@@' .. id) == 0 do
            waiter = call('ZPOPMIN', queue)[1]
        end
        return { false, -2, token }
    end
end

call('ZREM', queue, id)
if not owner then
    -- Perhaps it was this waiter that had been told to try. The next one is told in its place, and stays
    -- in the queue until it wins.
    local place = 0
    local waiter = call('ZRANGE', queue, place, place)[1]
    while waiter and call('PUBLISH', key .. ':' .. waiter, 'released@@' .. id) == 0 do
        place = place + 1
        waiter = call('ZRANGE', queue, place, place)[1]
    end
end
return { owner, call('PTTL', key), token }

-- ARGV: id, the term's token, or 0 to give nothing back and only leave the queue.
local id, known = ARGV[1], tonumber(ARGV[2])
local owner = redis.call('GET', key)
local token = read_token()
local message = 'released@@' .. id

redis.call('ZREM', queue, id)

if owner == id and known > 0 then
    -- The counter was lost or went back: no later term can have begun since.
    if token == 0 then
        token = write_token(known)
    elseif token < known then
        return record(owner, redis.call('PTTL', key), write_token(known))
    end
    if token == known then
        redis.call('DEL', key)
        -- A waiter that nobody listens for is dead: the next one is told.
        local waiter = redis.call('ZPOPMIN', queue)[1]
        while waiter and redis.call('PUBLISH', key .. ':' .. waiter, message) == 0 do
            waiter = redis.call('ZPOPMIN', queue)[1]
        end
        return record(false, -2, token)
    end
elseif not owner then
    -- Perhaps it was this waiter that had been told to try. The next one is told in its place, and stays
    -- in the queue until it wins.
    local place = 0
    local waiter = redis.call('ZRANGE', queue, place, place)[1]
    while waiter and redis.call('PUBLISH', key .. ':' .. waiter, message) == 0 do
        place = place + 1
        waiter = redis.call('ZRANGE', queue, place, place)[1]
    end
end
return record(owner, redis.call('PTTL', key), token)

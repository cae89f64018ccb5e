-- The short way of an acquire, where ARGV[4] is the last: the contender has just released, by this connection, the term
-- whose token that is, and told nobody by that. So the server has lost no data since, and where the counter still has
-- that token nobody else has owned since: one more is a token that was never given out. Nor does the contender stand in
-- the queue. Otherwise, or where something is refused, nothing was granted, and the long way follows.
if #ARGV == 4 and call('SET', key, id, 'NX', 'PX', ARGV[2]) then
    local next_token = redis.pcall('INCR', counter)
    local heard = next_token == ARGV[4] + 1 and redis.pcall('PUBLISH', key, 'acquired@@' .. id)
    if type(heard) == 'number' then
        return next_token
    end
    call('DEL', key)
end

-- ARGV: 'queue' where the waiters are wanted. Behind the token: how many wait, without an owner
-- that is in its own queue (one of the JVM); then the time in microseconds, and the first ten
-- thousand waiters, each with its score.
local owner = call('GET', key)
local itself = owner and type(redis.pcall('ZRANK', queue, owner)) == 'number' and 1 or 0
local answer = { owner, call('PTTL', key), token, call('ZCARD', queue) - itself }
if ARGV[1] == 'queue' then
    local time = call('TIME')
    answer[5] = time[1] * 1000000 + time[2]
    answer[6] = call('ZRANGE', queue, 0, 9999, 'WITHSCORES')
end
return answer

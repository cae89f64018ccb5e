-- ARGV: 'queue' where the waiters are wanted. Behind the token: how many wait, without an owner
-- that is in its own queue (one of the JVM); then the time in microseconds, and the first ten
-- thousand waiters, each with its score; or how many milliseconds the owner has held, where its
-- acquire has noted when it began, with its id (one of the JVM notes nothing).
local owner = call('GET', key)
local itself = owner and type(redis.pcall('ZRANK', queue, owner)) == 'number' and 1 or 0
local answer = { owner, call('PTTL', key), token, call('ZCARD', queue) - itself }
if ARGV[1] == 'queue' then
    local time = call('TIME')
    answer[5] = time[1] * 1000000 + time[2]
    answer[6] = call('ZRANGE', queue, 0, 9999, 'WITHSCORES')
elseif owner then
    local noted, time = redis.pcall('GET', key .. ':since'), call('TIME')
    local since_us = type(noted) == 'string' and string.sub(noted, 17) == owner
        and tonumber(string.sub(noted, 1, 16))
    answer[5] = since_us and math.floor((time[1] * 1000000 + time[2] - since_us) / 1000)
end
return answer

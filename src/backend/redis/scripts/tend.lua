-- KEYS[4]: the hash of the properties. ARGV: 'forget' or 'raise', a token, and the id that may own
-- meanwhile ('': nobody may). Behind the token: 1 where it was done.
local owner, known, done = call('GET', key), tonumber(ARGV[2]), 0
if ARGV[1] == 'forget' then
    -- A name that comes back begins with the time of day, or above.
    local time = call('TIME')
    if not owner and token == known and token < time[1] * 1000000 + time[2] then
        call('DEL', queue, counter, KEYS[4])
        done = 1
    end
elseif known > 4503599627370496 then
    return { err = 'ERR the mutex had tokens above 2^52, half of those that Redis can count' }
elseif not owner or owner == ARGV[3] then
    if known > token then
        token = known
        call('SET', counter, string.format('%.0f', token))
    end
    done = 1
end
return { owner, call('PTTL', key), token, done }

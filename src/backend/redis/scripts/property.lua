-- KEYS[4]: the hash of the properties, each with the time of its writing in milliseconds before its
-- value. ARGV: name; to write it, the value; to write it only as the owner, the owner's id.
-- Behind the token: the property as it is in the hash, the time, and 1 where it was written. What
-- others write for the owner is told to those that follow it.
local owner, time, written = call('GET', key), call('TIME'), 0
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] and (not ARGV[3] or owner == ARGV[3]) then
    call('HSET', KEYS[4], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
    written = 1
    if owner and not ARGV[3] then
        redis.pcall('PUBLISH', key, 'acquired@@' .. owner)
    end
end
-- Anybody can write the hash: what is longer than any property is cut.
local kept = call('HGET', KEYS[4], ARGV[1])
return { owner, call('PTTL', key), token, kept and string.sub(kept, 1, 1024), now, written }

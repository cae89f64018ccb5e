-- Stands before every script. KEYS: the owner, the wait queue, the counter behind the token, and in
-- scripts that know reservations the waiter that a free mutex is reserved for; in that of properties
-- the hash of these; all of one mutex.
-- The answer: the owner (false for nobody), what is left of its lease, the token. A script that has
-- done what it is for answers with the token alone, because tables are what costs a server most:
-- after an acquire or a guard the caller owns for the whole lease, after a release nobody does. An
-- error always means that nothing was granted and nothing was given back.
local call, key, queue, counter, id = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1]

-- A reservation lasts this long at most. What lasts longer in its key is no reservation: it names a
-- waiter that was late for one, see acquire.lua.
local longest_reservation_ms = 1000

-- Beyond 2^53 a Lua number cannot count; the time in microseconds stays below that until the year
-- 2255. What is no such number is somebody's mistake and counts as none. It is written with '%.0f',
-- in plain digits whatever the server makes of large Lua numbers.
local token = tonumber(call('GET', counter) or 0) or 0
if not (token >= 0 and token < 9007199254740992) then
    token = 0
end

-- A token is the time of day, or a little more. One that a client tells of may be larger than the
-- counter, which can be lost; but where it is more than a day ahead of the clock somebody has lied
-- to that client, and it must not spread.
local function refusal(known)
    if known > token and known > call('TIME')[1] * 1000000 + 86400000000 then
        return {
            err = "ERR the client knows a token that is more than a day ahead of the server's clock"
        }
    end
end
